#!lua flags=no-writes,allow-stale
-- A page of the undelivered entries of one stream, without their payload. Reads only.
-- KEYS  1 stream
-- ARGV  1 entry id after which to begin, '' for the first of the lane  2 how many. What is delivered is left out
-- Returns per entry {id, task, job, attempt, enqueued_at}; an entry that can't be read has '' for its values
-- include: record
local groups = redis.pcall('XINFO', 'GROUPS', KEYS[1])
if groups.err then return {} end
local start = '0-0'
for _, group in ipairs(groups) do
  if group[2] == GROUP then start = group[8] end
end
local ms, nth = string.match(ARGV[1], '^(%d+)-(%d+)$')
local last_ms, last_nth = string.match(start, '^(%d+)-(%d+)$')
if ms and (tonumber(ms) > tonumber(last_ms) or (ms == last_ms and tonumber(nth) > tonumber(last_nth))) then
  start = ARGV[1]
end
local found = {}
for _, entry in ipairs(redis.call('XRANGE', KEYS[1], '(' .. start, '+', 'COUNT', ARGV[2])) do
  local f = {t = '', h = ''}
  for k = 1, #entry[2], 2 do
    if f[entry[2][k]] and #entry[2][k + 1] <= (entry[2][k] == 't' and 200 or 300) then f[entry[2][k]] = entry[2][k + 1] end
  end
  local job, attempt, since = string.match(f.h, '^1\t([^\t]*)\t(%d+)\t(%d+)\t')
  found[#found + 1] = {entry[1], f.t, job or '', attempt or '', since or ''}
end
return found
