#!lua flags=allow-oom
-- Opens an engine's session in one queue; a former session of the same engine id is fenced off.
-- KEYS  1 session  2 beats
-- ARGV  1 fence (random, new for each open)  2 engine id
-- Returns 'OK'. Repeatable: the same fence changes nothing.
-- include: record
if redis.call('HGET', KEYS[1], 'f') == ARGV[1] then return 'OK' end
-- counts as a beat, so that an engine that dies before its first one can be judged. From the clock: the counter that an
-- earlier session was judged at must not come back, or a reclaim that is repeated late would hit this session
local beat = (tonumber(redis.call('HGET', KEYS[2], ARGV[2])) or 0) + 1
redis.call('HSET', KEYS[2], ARGV[2], integer(math.max(beat, now_ms())))
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[1], 'f', ARGV[1], 'n', 0, 'r', '')
return 'OK'
