#!lua flags=allow-oom
-- Adds to a capped stream: commands to a node, their replies, log lines. An operator must reach a node on a full server.
-- KEYS  1 stream
-- ARGV  1 entries to keep  2 seconds to keep it  then fields and values
-- Returns the entry's id. Repeatable: the entry is there twice; commands are idempotent.
local id = redis.call('XADD', KEYS[1], 'MAXLEN', '~', ARGV[1], '*', unpack(ARGV, 3))
redis.call('EXPIRE', KEYS[1], ARGV[2])
return id
