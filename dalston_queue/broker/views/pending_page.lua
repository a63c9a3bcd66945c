#!lua flags=no-writes,allow-stale
-- A page of running tasks from a sorted set, with their records. Reads only.
-- KEYS  1 running or deadlines  2 tasks
-- ARGV  1 highest score, an age before now: '-N' means now - N ms; 'inf' for all  2 offset  3 limit
-- Returns {now, total, per task {task, score, record}}
-- include: record
local now = now_ms()
local high = ARGV[1] == 'inf' and '+inf' or now + tonumber(ARGV[1])
local page
if high == '+inf' then -- by rank: the thousandth page costs as much as the first
  page = redis.call('ZRANGE', KEYS[1], ARGV[2], ARGV[2] + ARGV[3] - 1, 'WITHSCORES')
else
  page = redis.call('ZRANGE', KEYS[1], '-inf', high, 'BYSCORE', 'LIMIT', ARGV[2], ARGV[3], 'WITHSCORES')
end
local found = {}
for i = 1, #page, 2 do
  found[#found + 1] = {page[i], page[i + 1], redis.call('HGET', KEYS[2], page[i])}
end
return {now, redis.call('ZCOUNT', KEYS[1], '-inf', high), found}
