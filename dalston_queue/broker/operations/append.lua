#!lua
-- Adds attempts of tasks to one stream. No allow-oom: a full server refuses new work, and only that.
-- KEYS  1 tasks  2 lanes  3 wake  4 counters  5 running  6 deadlines  7 stream  8 (optional) the other stream that a
--       record was found in
-- ARGV  1 capability set  2 max lanes, beside the plain one  3 the tier, counted from 1 in claiming order, then per message: task, job,
--       attempt, enqueued_at (0: now), timeout ms, deliveries, losses, number of its last event, JSON
-- Returns 'LANES' (too many), or one answer per message: 'added', 'duplicate', 'settled', 'superseded', or the key of
--       the stream that must be declared as KEYS[8] before this message can be decided.
-- Repeatable: by task and attempt, and by the entry's existence.
-- include: record, wake, marks, lane
local tasks, stream = KEYS[1], KEYS[7]
local lane, tier = '@' .. ARGV[1], tonumber(ARGV[3])
local marks = redis.call('HGET', KEYS[2], lane)
if not marks then
  if lane ~= '@' then -- the plain lane always exists
    local lanes = 0
    for _, name in ipairs(redis.call('HKEYS', KEYS[2])) do
      if string.sub(name, 1, 1) == '@' and name ~= '@' then lanes = lanes + 1 end
    end
    if lanes >= tonumber(ARGV[2]) then return 'LANES' end
  end
  redis.call('HSET', KEYS[2], lane, NO_MARKS)
  redis.call('HINCRBY', KEYS[2], '#v', 1)
  marks = NO_MARKS
end
local now = now_ms()
local answers = {}
local added = 0

-- 'add', or the answer. Removes what a new attempt replaces.
local function decide(task, attempt, r)
  if not r or (r.state == 's' and r.attempt < attempt) then return 'add' end
  if r.attempt > attempt then return 'superseded' end
  if r.state == 's' then return 'settled' end
  local home = r.stream
  if home ~= stream and home ~= KEYS[8] then return home end
  if r.attempt == attempt and #redis.call('XRANGE', home, r.entry, r.entry) == 1 then return 'duplicate' end
  redis.pcall('XACK', home, GROUP, r.entry)
  redis.call('XDEL', home, r.entry)
  redis.call('ZREM', KEYS[5], task)
  redis.call('ZREM', KEYS[6], task)
  return 'add'
end

for i = 4, #ARGV, 9 do
  local task, attempt, since = ARGV[i], tonumber(ARGV[i + 2]), tonumber(ARGV[i + 3])
  local r = unpack_record(redis.call('HGET', tasks, task))
  local answer = decide(task, attempt, r)
  if answer == 'add' then
    if since == 0 then since = now end
    local head = '1\t' .. ARGV[i + 1] .. '\t' .. ARGV[i + 2] .. '\t' .. integer(since) .. '\t' .. ARGV[i + 4]
    local id = redis.call('XADD', stream, 'NOMKSTREAM', '*', 't', task, 'h', head, 'm', ARGV[i + 8])
    if not id then
      ensure_group(stream)
      id = redis.call('XADD', stream, '*', 't', task, 'h', head, 'm', ARGV[i + 8])
    end
    local line
    if r and r.attempt == attempt then
      r.seq = math.max(tonumber(ARGV[i + 7]), r.seq)
      r.deliveries = math.max(tonumber(ARGV[i + 5]), r.deliveries)
      r.losses = math.max(tonumber(ARGV[i + 6]), r.losses)
      r.timeout, r.job = ARGV[i + 4], ARGV[i + 1]
      line = waiting(r, stream, id)
    else
      -- the common case, without a number made into text
      local seq = ARGV[i + 7] == '0' and '1' or integer(ARGV[i + 7] + 1)
      line = 'w\t' .. id .. '\t' .. stream .. '\t' .. ARGV[i + 4] .. '\t' .. ARGV[i + 1]
        .. '\t' .. ARGV[i + 2] .. '\t' .. seq .. '\t' .. ARGV[i + 5] .. '\t' .. ARGV[i + 6]
    end
    redis.call('HSET', tasks, task, line)
    added = added + 1
    answer = 'added'
  end
  answers[#answers + 1] = answer
end
if added > 0 then
  write_mark(KEYS[2], lane, marks, tier, true)
  redis.pcall('HINCRBY', KEYS[4], 'appended', added)
  wake(KEYS[3], added)
end
return answers
