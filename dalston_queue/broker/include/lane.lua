-- Streams of a lane: made with their group at 0, so that nothing that came before the group is skipped.
local TIER_NAMES = {'recovered', 'high', 'medium', 'low', 'suspect'}
local SUSPECT_FROM = 2 -- deliveries

local function ensure_group(stream)
  if redis.call('EXISTS', stream) == 0 then
    redis.call('XGROUP', 'CREATE', stream, GROUP, '0', 'MKSTREAM')
  end
end

-- Whether entries can be added: another program may have written another type to the key.
local function is_open(stream)
  local type = redis.call('TYPE', stream).ok
  return type == 'stream' or type == 'none'
end

-- Moves a pending entry to a stream where it waits again: same attempt, new entry. The caller has checked the record.
local function move_entry(keys, task, r, from, to, wake_key, fields)
  ensure_group(to)
  local id = redis.call('XADD', to, '*', unpack(fields))
  redis.call('XACK', from, GROUP, r.entry)
  redis.call('XDEL', from, r.entry)
  redis.call('HSET', keys.tasks, task, waiting(r, to, id)) -- before the indexes, which may have another type
  redis.call('ZREM', keys.running, task)
  redis.call('ZREM', keys.deadlines, task)
  wake(wake_key, 1)
end
