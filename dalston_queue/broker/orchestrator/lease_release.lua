#!lua flags=allow-oom
-- Releases the lease of a role, only as its holder in this term.
-- KEYS  1 leader
-- ARGV  1 token  2 term
-- Returns 1, or 0 when it was not ours (any more). Repeatable.
local held = redis.call('HMGET', KEYS[1], 'token', 'term')
if held[1] ~= ARGV[1] or held[2] ~= ARGV[2] then return 0 end
redis.call('DEL', KEYS[1])
return 1
