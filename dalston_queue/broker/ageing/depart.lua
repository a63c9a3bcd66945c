#!lua flags=allow-oom
-- Carrying, step 2, at the old shard: takes waiting entries out of their lane, if they are still what was seen, and notes for
-- which reservation. This decides: from here on the task belongs to the new shard.
-- KEYS  1 tasks  2 ageing  3 moving  4 stream
-- ARGV  per task: task, attempt, number of its last event, its reservation
-- Returns per task the id of the note, or '' when it does not wait there as it was seen.
-- Repeatable: the note of the same reservation is found again.
-- include: record
local moving, stream = KEYS[3], KEYS[4]
local function depart(task, attempt, seq, reservation)
  local r = unpack_record(redis.call('HGET', KEYS[1], task))
  if not r or r.state ~= 'w' then
    redis.call('ZREM', KEYS[2], task)
    return ''
  end
  if r.attempt ~= attempt or r.seq ~= seq then return '' end
  if r.stream == moving then
    local note = redis.call('XRANGE', moving, r.entry, r.entry)[1]
    if note and note[2][3] == 'for' and note[2][4] == reservation then return r.entry end
    return ''
  end
  if r.stream ~= stream or redis.call('XDEL', stream, r.entry) == 0 then return '' end
  local id = redis.call('XADD', moving, '*', 't', task, 'for', reservation)
  if r.aged == '1' then redis.call('ZREM', KEYS[2], task) end
  redis.call('HSET', KEYS[1], task, waiting(r, moving, id, 0))
  return id
end
local answers = {}
for i = 1, #ARGV, 4 do
  answers[#answers + 1] = depart(ARGV[i], tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2]), ARGV[i + 3])
end
return answers
