#!lua flags=allow-oom
-- After the commit: acknowledges and deletes events of one stream and clears the tombstones of ended attempts.
-- KEYS  1 events  2 tasks
-- ARGV  1 group, then per event: entry id ('' while parts of the entry are open), task and attempt ('' and '' when it
--       ends no attempt)
-- Returns how many entries were still there. Repeatable.
-- include: record
local ids = {}
for i = 2, #ARGV, 3 do
  if ARGV[i] ~= '' then ids[#ids + 1] = ARGV[i] end
  local task = ARGV[i + 1]
  if task ~= '' then
    local r = unpack_record(redis.call('HGET', KEYS[2], task))
    if r and r.state == 's' and r.attempt == tonumber(ARGV[i + 2]) then redis.call('HDEL', KEYS[2], task) end
  end
end
if #ids == 0 then return 0 end
redis.pcall('XACK', KEYS[1], ARGV[1], unpack(ids))
return redis.call('XDEL', KEYS[1], unpack(ids))
