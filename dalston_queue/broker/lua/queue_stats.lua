#!lua flags=no-writes,allow-stale
-- The numbers of one queue, in O(its lanes). Reads only.
-- KEYS  1 events  2 counters  3 lanes  4 running, then streams
-- ARGV  none
-- Returns {now, event backlog, counters, paused, running, per stream {length, pending, consumers, enqueued_at of the first
--       undelivered entry or -1, entries ever added}}
-- include: record
local streams = {}
for i = 5, #KEYS do
  local length = redis.call('XLEN', KEYS[i])
  local pending, consumers, oldest, added = 0, 0, -1, 0
  local info = redis.pcall('XINFO', 'STREAM', KEYS[i])
  if not info.err then
    for k = 1, #info, 2 do
      if info[k] == 'entries-added' then added = info[k + 1] end
    end
    local last = '0-0'
    for _, group in ipairs(redis.call('XINFO', 'GROUPS', KEYS[i])) do
      if group[2] == GROUP then consumers, pending, last = group[4], group[6], group[8] end
    end
    if length > pending then
      local first = redis.call('XRANGE', KEYS[i], '(' .. last, '+', 'COUNT', 1)[1]
      if first then
        oldest = tonumber(string.match(first[1], '^%d+'))
        for k = 1, #first[2], 2 do
          if first[2][k] == 'h' then oldest = tonumber(string.match(first[2][k + 1], '^1\t[^\t]*\t%d+\t(%d+)')) or oldest end
        end
      end
    end
  end
  streams[#streams + 1] = {length, pending, consumers, oldest, added}
end
return {now_ms(), redis.call('XLEN', KEYS[1]), redis.call('HGETALL', KEYS[2]), redis.call('HGET', KEYS[3], '#paused'),
  redis.call('ZCARD', KEYS[4]), streams}
