#!lua flags=no-writes
-- The first undelivered entries of a lane. Reads only.
-- KEYS  1 stream
-- ARGV  1 how many
-- Returns per entry {id, fields}
-- include: record
local groups = redis.pcall('XINFO', 'GROUPS', KEYS[1])
if groups.err then return {} end
local last = '0-0'
for _, group in ipairs(groups) do
  if group[2] == GROUP then last = group[8] end
end
return redis.call('XRANGE', KEYS[1], '(' .. last, '+', 'COUNT', ARGV[1])
