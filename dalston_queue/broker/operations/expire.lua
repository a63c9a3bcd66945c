#!lua flags=allow-oom
-- Takes one running task from its owner and reports it failed: its deadline passed, or it was not renewed for too long.
-- KEYS  1 tasks  2 running  3 deadlines  4 events  5 counters  6 the stream that its record names
-- ARGV  1 task  2 attempt  3 the renewal (ms) that was judged too old, '' for any  4 JSON body of the event
-- Returns {'expired'}, {'renewed'}, {'absent'}, or {'elsewhere', stream} when KEYS[6] is not where it is. Repeatable.
-- include: record, event
local task = ARGV[1]
local r = unpack_record(redis.call('HGET', KEYS[1], task))
if not r or r.state ~= 'r' or r.attempt ~= tonumber(ARGV[2]) then return {'absent'} end
if r.stream ~= KEYS[6] then return {'elsewhere', r.stream} end
if ARGV[3] ~= '' and r.renewed > tonumber(ARGV[3]) then return {'renewed'} end
r.seq = r.seq + 1
write_event(KEYS[4], 'task.failed', task, r.job, r, r.owner, now_ms(), '', ARGV[4])
redis.pcall('XACK', KEYS[6], GROUP, r.entry)
redis.call('XDEL', KEYS[6], r.entry)
redis.call('HSET', KEYS[1], task, tombstone(r))
redis.call('ZREM', KEYS[2], task)
redis.call('ZREM', KEYS[3], task)
redis.pcall('HINCRBY', KEYS[5], 'expired', 1)
return {'expired'}
