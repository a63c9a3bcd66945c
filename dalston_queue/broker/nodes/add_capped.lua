#!lua flags=allow-oom
-- Adds to a capped stream: log lines of a node. An operator must be able to see them on a full server.
-- KEYS  1 stream
-- ARGV  1 entries to keep  2 seconds to keep it  then fields and values
-- Returns the entry's id. Repeatable: the entry is there twice, and its lines have positions.
local id = redis.call('XADD', KEYS[1], 'MAXLEN', ARGV[1], '*', unpack(ARGV, 3))
redis.call('EXPIRE', KEYS[1], ARGV[2])
return id
