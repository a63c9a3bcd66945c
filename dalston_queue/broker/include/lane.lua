-- Streams of a lane: made with their group at 0, so that nothing that came before the group is skipped.
local function ensure_group(stream)
  if redis.call('EXISTS', stream) == 0 then
    redis.call('XGROUP', 'CREATE', stream, GROUP, '0', 'MKSTREAM')
  end
end

-- Whether entries can be added: a foreign hand may have put something else in the place of a stream.
local function is_open(stream)
  local type = redis.call('TYPE', stream).ok
  return type == 'stream' or type == 'none'
end

-- The hash of lanes has for each lane a mark per tier: 1 when something undelivered may stand in it. Whoever adds an
-- entry sets the mark; a claim that finds nothing clears it. `tier` counts from 1.
local NO_MARKS = '00000'
local function mark(lanes, lane, tier, marks)
  marks = marks or redis.call('HGET', lanes, lane) or NO_MARKS
  if string.byte(marks, tier) == 49 then return end
  if #marks ~= 5 then marks = NO_MARKS end
  redis.call('HSET', lanes, lane, string.sub(marks, 1, tier - 1) .. '1' .. string.sub(marks, tier + 1))
end

-- Moves a pending entry back in line: same attempt, new entry. The caller has checked the record.
local function move_entry(keys, task, r, from, to, wake_key, fields)
  ensure_group(to)
  local id = redis.call('XADD', to, '*', unpack(fields))
  redis.call('XACK', from, GROUP, r[ENTRY])
  redis.call('XDEL', from, r[ENTRY])
  redis.call('ZREM', keys.running, task)
  redis.call('ZREM', keys.deadlines, task)
  redis.call('HSET', keys.tasks, task, waiting(r, to, id, 0))
  wake(wake_key, 1)
end
