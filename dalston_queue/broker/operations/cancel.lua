#!lua flags=allow-oom
-- Removes a waiting task, or asks the engine of a running one to stop.
-- KEYS  1 tasks  2 counters  3 the stream that its record names
-- ARGV  1 task  2 attempt, '' for any  3 1: flag it if it runs
-- Returns {'removed'}, {'flagged'}, {'running'}, {'settled'}, {'absent'}, or {'elsewhere', stream}. Repeatable.
-- include: record
local task = ARGV[1]
local r = unpack_record(redis.call('HGET', KEYS[1], task))
if not r or (ARGV[2] ~= '' and r.attempt ~= tonumber(ARGV[2])) then return {'absent'} end
if r.state == 's' then return {'settled'} end
if r.state == 'r' then
  if ARGV[3] ~= '1' then return {'running'} end
  if r.cancel ~= 1 then
    r.cancel = 1
    redis.call('HSET', KEYS[1], task, running(r))
  end
  return {'flagged'}
end
if r.stream ~= KEYS[3] then return {'elsewhere', r.stream} end
redis.call('XDEL', KEYS[3], r.entry)
redis.call('HDEL', KEYS[1], task)
redis.pcall('HINCRBY', KEYS[2], 'removed', 1)
return {'removed'}
