#!lua flags=allow-oom
-- Creates a stream and its group if they aren't there; at 0, so that entries older than the group are read.
-- KEYS  1 stream
-- ARGV  1 group
-- Returns 1 when it was created, 0 when it was there. Repeatable.
local made = redis.pcall('XGROUP', 'CREATE', KEYS[1], ARGV[1], '0', 'MKSTREAM')
if not made.err then return 1 end
if string.find(made.err, 'BUSYGROUP', 1, true) then return 0 end
return made
