#!lua flags=allow-oom
-- Adds names to an index (queues, nodes, engines).
-- KEYS  1 set
-- ARGV  names
-- Returns how many were new. Repeatable.
return redis.call('SADD', KEYS[1], unpack(ARGV))
