#!lua flags=allow-oom
-- Writes the state of a command: taken, then done or failed.
-- KEYS  1 replies
-- ARGV  1 command id  2 state  3 message
-- Returns 1, or 0 when the command is gone. Repeatable: the time is that of the first call, the message of the
--       last; after done or failed nothing changes.
local id, field = ARGV[1], ARGV[1] .. ':' .. ARGV[2]
if redis.call('HEXISTS', KEYS[1], id) == 0 then return 0 end
local ended = redis.call('HMGET', KEYS[1], id .. ':done', id .. ':failed')
if ended[1] or ended[2] then return 1 end
local before = redis.call('HGET', KEYS[1], field)
local at = before and string.match(before, '^(%d+) ')
if not at then
  local time = redis.call('TIME')
  at = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))
end
redis.call('HSET', KEYS[1], field, at .. ' ' .. ARGV[3])
return 1
