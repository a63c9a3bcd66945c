#!lua flags=allow-oom
-- Renews the lease of a role, only as its holder in this term.
-- KEYS  1 leader
-- ARGV  1 token  2 term  3 ttl in ms
-- Returns 1, or 0 when it is no longer ours. Repeatable.
local held = redis.call('HMGET', KEYS[1], 'token', 'term')
if held[1] ~= ARGV[1] or held[2] ~= ARGV[2] then return 0 end
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return 1
