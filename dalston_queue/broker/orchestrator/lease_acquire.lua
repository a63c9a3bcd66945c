#!lua flags=allow-oom
-- Acquires the lease of a role if it is free, renews it if it is ours.
-- KEYS  1 leader
-- ARGV  1 token  2 term  3 ttl in ms
-- Returns 1 or 0. Repeatable.
local held = redis.call('HGET', KEYS[1], 'token')
if held and held ~= ARGV[1] then return 0 end
redis.call('HSET', KEYS[1], 'token', ARGV[1], 'term', ARGV[2])
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return 1
