#!lua
-- Carrying, step 1, at the new shard: writes down what will come, where no engine claims it. No allow-oom: a full server takes
-- no new work, and the task stays where it is.
-- KEYS  1 tasks  2 lanes  3 moving
-- ARGV  1 field of the lane in the hash of lanes  2 most lanes  3 name of the new tier, then per task: task, attempt,
--       number of its last event, job, timeout ms, deliveries, losses, head and JSON of its entry
-- Returns 'LANES' (too many), or per task the id of its reservation, or '' when this attempt is known here.
-- Repeatable: an attempt whose last event is the same has one reservation.
-- include: record
local tasks, moving, lane = KEYS[1], KEYS[3], ARGV[1]
if redis.call('HEXISTS', KEYS[2], lane) == 0 then
  local lanes = 0
  for _, name in ipairs(redis.call('HKEYS', KEYS[2])) do
    if string.sub(name, 1, 1) == '@' then lanes = lanes + 1 end
  end
  if lanes >= tonumber(ARGV[2]) then return 'LANES' end
end

-- nil: reserve; else the answer
local function known(r, attempt, seq)
  if not r then return nil end
  if r.state ~= 'w' or r.stream ~= moving then
    if r.state == 's' and r.attempt < attempt then return nil end
    return ''
  end
  if r.attempt > attempt or (r.attempt == attempt and r.seq > seq) then return '' end
  if r.attempt == attempt and r.seq == seq and #redis.call('XRANGE', moving, r.entry, r.entry) == 1 then return r.entry end
  redis.call('XDEL', moving, r.entry)
  return nil
end

local answers = {}
for i = 4, #ARGV, 9 do
  local task, attempt, seq = ARGV[i], tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2])
  local id = known(unpack_record(redis.call('HGET', tasks, task)), attempt, seq)
  if not id then
    id = redis.call('XADD', moving, '*', 't', task, 'h', ARGV[i + 7], 'm', ARGV[i + 8], 'to', ARGV[3], 'lane', lane)
    local r = {attempt = attempt, seq = seq, job = ARGV[i + 3], timeout = ARGV[i + 4],
      deliveries = tonumber(ARGV[i + 5]), losses = tonumber(ARGV[i + 6])}
    redis.call('HSET', tasks, task, waiting(r, moving, id, 0))
  end
  answers[#answers + 1] = id
end
return answers
