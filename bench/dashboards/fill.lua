-- Puts tasks in a stream as append and claim would leave them. For the bench: nothing is checked, nothing is told.
-- KEYS  1 stream  2 tasks  3 running  4 deadlines
-- ARGV  1 first number  2 how many  3 owner (empty: they wait)  4 now  5 JSON of the message
redis.pcall('XGROUP', 'CREATE', KEYS[1], 'engines', '0', 'MKSTREAM')
local first, count, owner, now = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3], tonumber(ARGV[4])
for n = first, first + count - 1 do
  local tail = string.format('%012x', n)
  local task, job = '01920000-0000-7000-8000-' .. tail, '01910000-0000-7000-8000-' .. tail
  local id = redis.call('XADD', KEYS[1], '*', 'v', 1, 't', task, 'j', job, 'a', 1, 'e', now, 'o', 3600000, 'm', ARGV[5])
  if owner == '' then
    redis.call('HSET', KEYS[2], task, cmsgpack.pack({1, 0, 'w', 0, 0, KEYS[1], id, 0}))
  else
    local told = '{"fraction":0.' .. (n % 9 + 1) .. ',"message":"chunk ' .. n % 90 .. ' of 90"}'
    redis.call('HSET', KEYS[2], task, cmsgpack.pack({1, 1, 'r', 0, 0, KEYS[1], id, 0, owner, job, now, now + n % 5000,
      now + 3600000, 0, told}))
    redis.call('ZADD', KEYS[3], now + n % 5000, task)
    redis.call('ZADD', KEYS[4], now + 3600000, task)
  end
end
if owner ~= '' then redis.call('XREADGROUP', 'GROUP', 'engines', owner, 'COUNT', count, 'STREAMS', KEYS[1], '>') end
