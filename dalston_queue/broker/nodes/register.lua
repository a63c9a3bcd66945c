#!lua flags=allow-oom
-- The heartbeat of a node or engine: moves its counter and keeps its report; a verdict against it is void.
-- KEYS  1 engine or node
-- ARGV  1 ms to keep it without another beat, then fields and values
-- Returns the counter. Repeatable: once more is one more beat.
-- include: record, beats
redis.call('HSET', KEYS[1], unpack(ARGV, 2))
redis.call('HDEL', KEYS[1], 'dead')
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return count_beat(KEYS[1], 'beat')
