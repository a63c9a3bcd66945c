#!lua flags=allow-oom
-- Ends an engine's session in good order and leaves the groups where nothing is pending for it.
-- KEYS  1 session  2 beats  3 verdicts  4.. streams
-- ARGV  1 fence  2 engine id
-- Returns 'OK', or 'FENCED' when the session isn't this one any more. Repeatable.
-- include: record
local fence = redis.call('HGET', KEYS[1], 'f')
if fence and fence ~= ARGV[1] then return 'FENCED' end
for i = 4, #KEYS do
  local left = redis.pcall('XPENDING', KEYS[i], GROUP, '-', '+', 1, ARGV[2])
  -- DELCONSUMER destroys what is pending
  if not left.err and #left == 0 then redis.call('XGROUP', 'DELCONSUMER', KEYS[i], GROUP, ARGV[2]) end
end
redis.call('DEL', KEYS[1])
redis.call('HDEL', KEYS[2], ARGV[2])
redis.call('HDEL', KEYS[3], ARGV[2])
return 'OK'
