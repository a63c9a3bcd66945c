#!lua flags=allow-oom
-- Removes a consumer from groups, only where nothing is pending for it (DELCONSUMER destroys what is).
-- KEYS  streams
-- ARGV  1 group  2 consumer
-- Returns the number of streams where it is still pending. Repeatable.
local kept = 0
for i = 1, #KEYS do
  local left = redis.pcall('XPENDING', KEYS[i], ARGV[1], '-', '+', 1, ARGV[2])
  if not left.err then
    if #left == 0 then
      redis.call('XGROUP', 'DELCONSUMER', KEYS[i], ARGV[1], ARGV[2])
    else
      kept = kept + 1
    end
  end
end
return kept
