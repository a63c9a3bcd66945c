#!lua flags=allow-oom
-- Carrying, the end: forgets reservations that nothing came for, and notes of departures that have arrived.
-- KEYS  1 tasks  2 moving
-- ARGV  per entry of moving: task, entry id
-- Returns how many were there. Repeatable.
-- include: record
local found = 0
for i = 1, #ARGV, 2 do
  local r = unpack_record(redis.call('HGET', KEYS[1], ARGV[i]))
  if r and r.state == 'w' and r.stream == KEYS[2] and r.entry == ARGV[i + 1] then redis.call('HDEL', KEYS[1], ARGV[i]) end
  found = found + redis.call('XDEL', KEYS[2], ARGV[i + 1])
end
return found
