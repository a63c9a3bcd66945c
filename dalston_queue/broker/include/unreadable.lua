-- Dead-lettering an entry that can't be read: out of its stream, with its raw fields in the event.
local function printable(task) return (string.gsub(task, '[^!-~]', '?')) end

-- the event that brings an unreadable entry to the dead letters, raw. `reason` is one of our own constants.
local function write_dead_letter(events, task, r, engine, now, reason, fields)
  -- with the job only if the event can name the task: else only the raw fields are kept
  local job = printable(task) == task and r.job or ''
  local head = event_head('task.dead_lettered', printable(task), job, r, engine, now, '')
  redis.call('XADD', events, '*', 'h', head, 'm', '{"error":{"message":"' .. reason .. '","cause":"rejected"}}',
    'raw', cmsgpack.pack(fields))
end

-- takes an unreadable entry out of the stream. Its record, if it has one, becomes the tombstone that the event clears.
local function dead_letter(keys, stream, id, fields, engine, now, reason)
  local task = ''
  for i = 1, #fields, 2 do
    if fields[i] == 't' and #fields[i + 1] <= 200 then task = fields[i + 1] end
  end
  local r = task ~= '' and unpack_record(redis.call('HGET', keys.tasks, task))
  local is_its_own = r and r.stream == stream and r.entry == id
  if is_its_own then
    r.seq = r.seq + 1
  else
    r = {attempt = 0, seq = 0, deliveries = 0, losses = 0}
  end
  write_dead_letter(keys.events, task, r, engine, now, reason, fields)
  if is_its_own then
    -- an event that can't name the task would never clear its tombstone
    if printable(task) == task then
      redis.call('HSET', keys.tasks, task, tombstone(r))
    else
      redis.call('HDEL', keys.tasks, task)
    end
    redis.call('ZREM', keys.running, task)
    redis.call('ZREM', keys.deadlines, task)
  end
  redis.call('XACK', stream, GROUP, id)
  redis.call('XDEL', stream, id)
  redis.pcall('HINCRBY', keys.counters, 'dead_lettered', 1)
end
