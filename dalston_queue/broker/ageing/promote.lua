#!lua flags=allow-oom
-- Ageing: moves waiting entries of one lane to the next higher tier, only while they are undelivered. Also step 3 of carrying,
-- at the new shard: from reservations to the lane.
-- KEYS  1 tasks  2 ageing  3 events  4 counters  5 wake  6 from stream  7 to stream  8 lanes
-- ARGV  1 name of the new tier  2 ms of wait after which the new tier is promoted too (0: never)  3 field of the lane in the
--       hash of lanes  4 the new tier, counted from 1 in claiming order, then per task: task, its reservation ('' for none)
-- Returns per task '' (not waiting there any more) or {job, attempt, seq, deliveries, losses}. Repeatable.
-- include: record, event, entry, wake, marks, lane
local now = now_ms()
local answers, moved = {}, 0
local open = is_open(KEYS[6]) and is_open(KEYS[7])
local function move(task, reservation)
  local r = unpack_record(redis.call('HGET', KEYS[1], task))
  if not r or r.state ~= 'w' then
    redis.call('ZREM', KEYS[2], task)
    return ''
  end
  if not open or r.stream ~= KEYS[6] or (reservation ~= '' and r.entry ~= reservation) then return '' end
  local entry = redis.call('XRANGE', KEYS[6], r.entry, r.entry)[1]
  if not entry then return '' end
  local f = parse_entry(entry[2], MAX_ENTRY_BYTES)
  if not f then return '' end
  ensure_group(KEYS[7])
  local id
  if reservation == '' then
    id = redis.call('XADD', KEYS[7], '*', unpack(entry[2]))
  else
    id = redis.call('XADD', KEYS[7], '*', 't', f.t, 'h', f.h, 'm', f.m)
  end
  redis.call('XDEL', KEYS[6], r.entry)
  r.seq = r.seq + 1
  local aged = 0
  if tonumber(ARGV[2]) > 0 then
    aged = 1
    redis.call('ZADD', KEYS[2], f.e + tonumber(ARGV[2]), task)
  elseif r.aged == '1' then
    redis.call('ZREM', KEYS[2], task)
  end
  redis.call('HSET', KEYS[1], task, waiting(r, KEYS[7], id, aged))
  write_event(KEYS[3], 'task.promoted', task, f.j, r, '', now, ARGV[1], '')
  moved = moved + 1
  return {f.j, r.attempt, r.seq, r.deliveries, r.losses}
end
for i = 5, #ARGV, 2 do answers[#answers + 1] = move(ARGV[i], ARGV[i + 1]) end
if moved > 0 then
  -- a lane that is new in this shard: engines must hear of it
  if redis.call('HEXISTS', KEYS[8], ARGV[3]) == 0 then redis.call('HINCRBY', KEYS[8], '#v', 1) end
  redis.call('HINCRBY', KEYS[4], 'promoted', moved)
  mark(KEYS[8], ARGV[3], tonumber(ARGV[4]))
  wake(KEYS[5], moved)
end
return answers
