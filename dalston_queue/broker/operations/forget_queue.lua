#!lua flags=allow-oom
-- Deletes the keys of a queue that nothing uses: no task, no event, no engine, no further lane, not paused.
-- KEYS  1 tasks  2 running  3 events  4 beats  5 lanes, then the five streams of the plain lane, then other keys; last the
--       names of all queues, if it is on this server
-- ARGV  1 the queue, to be taken out of those names; or empty
-- Returns 1, or 0 when something is in it. Repeatable.

-- The size of a key, or 1 for one of another type: it is not ours to delete.
local function size(command, key)
  local found = redis.pcall(command, key)
  return type(found) == 'number' and found or 1
end

if size('HLEN', KEYS[1]) + size('ZCARD', KEYS[2]) + size('XLEN', KEYS[3]) + size('HLEN', KEYS[4]) > 0 then return 0 end
local fields = redis.pcall('HKEYS', KEYS[5])
if fields.err then return 0 end
for _, field in ipairs(fields) do
  if field ~= '@' and field ~= '#v' then return 0 end
end
for i = 6, 10 do
  if size('XLEN', KEYS[i]) > 0 then return 0 end
end
local last = #KEYS
if ARGV[1] ~= '' then
  redis.call('SREM', KEYS[last], ARGV[1])
  last = last - 1
end
redis.call('DEL', unpack(KEYS, 1, last))
return 1
