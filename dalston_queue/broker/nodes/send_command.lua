#!lua flags=allow-oom
-- Sends a command to a node, once per id. An operator must reach a node on a full server.
-- KEYS  1 commands  2 replies
-- ARGV  1 command id  2 commands to keep  3 seconds to keep them  4 the command (JSON)
-- Returns the command of this id: this one, or the one that was sent with it before.
-- Repeatable: the second call sends nothing.
local known = redis.call('HGET', KEYS[2], ARGV[1])
if known then return string.match(known, '^%d+ (.*)$') end
local time = redis.call('TIME')
local now = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))
redis.call('XADD', KEYS[1], '*', 'i', ARGV[1], 'm', ARGV[4])
redis.call('HSET', KEYS[2], ARGV[1], now .. ' ' .. ARGV[4])
-- an entry that falls off the stream takes its replies along
local excess = redis.call('XLEN', KEYS[1]) - tonumber(ARGV[2])
if excess > 0 then
  for _, entry in ipairs(redis.call('XRANGE', KEYS[1], '-', '+', 'COUNT', excess)) do
    local id = entry[2][1] == 'i' and entry[2][2]
    if id then redis.call('HDEL', KEYS[2], id, id .. ':taken', id .. ':done', id .. ':failed') end
    redis.call('XDEL', KEYS[1], entry[1])
  end
end
redis.call('EXPIRE', KEYS[1], ARGV[3])
redis.call('EXPIRE', KEYS[2], ARGV[3])
return ARGV[4]
