#!lua flags=allow-oom
-- Deletes a capability lane that has no entry in any tier.
-- KEYS  1 lanes  2 wake  3.. its five streams
-- ARGV  1 capability set
-- Returns 1, or 0 when something is in it. Repeatable.
for i = 3, #KEYS do
  local length = redis.pcall('XLEN', KEYS[i]) -- an error: no stream, and not ours to delete
  if type(length) ~= 'number' or length > 0 then return 0 end
end
redis.call('DEL', KEYS[2], unpack(KEYS, 3))
if redis.call('HDEL', KEYS[1], '@' .. ARGV[1]) == 1 then redis.call('HINCRBY', KEYS[1], '#v', 1) end
return 1
