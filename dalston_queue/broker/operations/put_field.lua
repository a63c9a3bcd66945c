#!lua flags=allow-oom
-- Sets one field of a hash: a verdict, a pause. Judging and pausing must work on a full server too.
-- KEYS  1 hash
-- ARGV  1 field  2 value  3 1: only if the hash is there (a lapsed one must not come back half empty)
-- Returns 1, or 0 when there is no such hash. Repeatable.
if ARGV[3] == '1' and redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
return 1
