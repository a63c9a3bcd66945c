#!lua flags=no-writes,allow-stale
-- The numbers of one queue, in O(its lanes). Reads only.
-- KEYS  1 events  2 counters  3 lanes  4 running, then streams
-- ARGV  none
-- Returns {now, event backlog, counters, fields of the hash of lanes, running, per stream {length, pending, consumers,
--       enqueued_at of the first undelivered entry or -1, entries ever added}}
-- include: record
local FIRST = 5 -- of the streams

-- The reply to a command, or `nothing` for a key of another type: none of ours is in it.
local function reply(nothing, ...)
  local reply = redis.pcall(...)
  if type(reply) == 'table' and reply.err then return nothing end
  return reply
end

local function enqueued_at(entry)
  for k = 1, #entry[2], 2 do
    if entry[2][k] == 'h' then
      local since = tonumber(string.match(entry[2][k + 1], '^1\t[^\t]*\t%d+\t(%d+)'))
      if since then return since end
    end
  end
  return tonumber(string.match(entry[1], '^%d+'))
end

local streams = {}
for i = FIRST, #KEYS do
  local length, pending, consumers, oldest, added = 0, 0, 0, -1, 0
  local info = redis.pcall('XINFO', 'STREAM', KEYS[i]) -- an error: no such key, or no stream
  if not info.err then
    length = redis.call('XLEN', KEYS[i])
    for k = 1, #info, 2 do
      if info[k] == 'entries-added' then added = info[k + 1] end
    end
    local last = '0-0'
    for _, group in ipairs(redis.call('XINFO', 'GROUPS', KEYS[i])) do
      if group[2] == GROUP then consumers, pending, last = group[4], group[6], group[8] end
    end
    if length > pending then
      local first = redis.call('XRANGE', KEYS[i], '(' .. last, '+', 'COUNT', 1)[1]
      if first then oldest = enqueued_at(first) end
    end
  end
  streams[#streams + 1] = {length, pending, consumers, oldest, added}
end
return {now_ms(), reply(0, 'XLEN', KEYS[1]), reply({}, 'HGETALL', KEYS[2]), reply({}, 'HKEYS', KEYS[3]),
  reply(0, 'ZCARD', KEYS[4]), streams}
