-- Puts tasks in a stream as append and claim would leave them. For the bench: nothing is checked, no event is written.
-- The broker's include of records comes before it, so that records are written by the same functions.
-- KEYS  1 stream  2 tasks  3 running  4 deadlines
-- ARGV  1 first number  2 how many  3 owner (empty: they wait)  4 now  5 JSON of the message
redis.pcall('XGROUP', 'CREATE', KEYS[1], GROUP, '0', 'MKSTREAM')
local first, count, owner, now = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3], tonumber(ARGV[4])
for n = first, first + count - 1 do
  local tail = string.format('%012x', n)
  local task, job = '01920000-0000-7000-8000-' .. tail, '01910000-0000-7000-8000-' .. tail
  local head = '1\t' .. job .. '\t1\t' .. integer(now) .. '\t3600000'
  local id = redis.call('XADD', KEYS[1], '*', 't', task, 'h', head, 'm', ARGV[5])
  local r = {}
  r.stream, r.entry, r.timeout, r.job = KEYS[1], id, 3600000, job
  r.attempt, r.seq, r.deliveries, r.losses = 1, 0, 0, 0
  if owner == '' then
    redis.call('HSET', KEYS[2], task, waiting(r, KEYS[1], id))
  else
    r.seq, r.owner, r.claimed, r.renewed, r.deadline, r.cancel = 1, owner, now, now + n % 5000, now + 3600000, 0
    r.progress = '{"fraction":0.' .. (n % 9 + 1) .. ',"message":"chunk ' .. n % 90 .. ' of 90"}'
    redis.call('HSET', KEYS[2], task, running(r))
    redis.call('ZADD', KEYS[3], r.renewed, task)
    redis.call('ZADD', KEYS[4], r.deadline, task)
  end
end
if owner ~= '' then redis.call('XREADGROUP', 'GROUP', GROUP, owner, 'COUNT', count, 'STREAMS', KEYS[1], '>') end
