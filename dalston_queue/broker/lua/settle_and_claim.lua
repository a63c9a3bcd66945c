#!lua flags=allow-oom
-- Settles what an engine has finished and claims what it has room for, in one round trip.
-- KEYS  1 session  2 tasks  3 running  4 deadlines  5 events  6 counters  7 lanes  8 ageing, then the wake key of each of
--       the engine's L lanes, then the five streams of each lane in claiming order
-- ARGV  1 fence  2 engine id  3 L  4 largest entry in bytes  5 longest event backlog  6 most suspects at once
--       7 sequence number of this call  8 how many to claim  9 1: the engine is empty, it may take a suspect, then per
--       settlement: task, attempt, index of its stream in KEYS, event kind, JSON body
-- Returns {'FENCED'} before anything else when the session is gone; {'SEQUENCE', last} for a call out of order; else
--       {'OK', lanes version, answers to the settlements, claims, buried}; a claim is {index of its stream in KEYS, entry id,
--       deliveries, losses, deadline, task, job, attempt, enqueued_at, timeout, JSON}; buried: {reason, stream, entry id}
-- Repeatable: a call with the last sequence number gets the stored answer again.
-- include: record, event, entry, owner, again
local keys = {tasks = KEYS[2], running = KEYS[3], deadlines = KEYS[4], events = KEYS[5], counters = KEYS[6]}
local me, lane_count, max_bytes = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local number, free = tonumber(ARGV[7]), tonumber(ARGV[8])
local first_stream = 9 + lane_count
local session = redis.call('HMGET', KEYS[1], 'f', 'n', 'r')
if session[1] ~= ARGV[1] then
  local refused = (#ARGV - 9) / 5
  if refused > 0 then redis.call('HINCRBY', keys.counters, 'refused', refused) end
  return {'FENCED'}
end
local lanes = redis.call('HMGET', KEYS[7], '#v', '#paused')

if tonumber(session[2]) == number then
  local stored = cmsgpack.unpack(session[3])
  local again = {}
  for _, c in ipairs(stored[2]) do
    local claim = claim_again(keys, KEYS[c[1]], c[1], c[2], me, max_bytes)
    if claim then again[#again + 1] = claim end
  end
  return {'OK', lanes[1], stored[1], again, {}}
end
if tonumber(session[2]) + 1 ~= number then return {'SEQUENCE', session[2]} end

local now = now_ms()
local codes, claims, buried, counts = {}, {}, {}, {}
local function count(name) counts[name] = (counts[name] or 0) + 1 end

-- settle: everything is checked before the first write; the writes of all settlements go together
local owned = {}
-- is this entry pending for us? The truth is the PEL, not the record; one look per stream tells of all that we hold
local function is_owned(stream, id)
  local ids = owned[stream]
  if not ids then
    ids = {}
    owned[stream] = ids
    local mine = redis.pcall('XPENDING', stream, GROUP, '-', '+', 512, me)
    for i = 1, mine.err and 0 or #mine do ids[mine[i][1]] = true end
  end
  return ids[id]
end

local settled = (#ARGV - 9) / 5
local records, heads = {}, {}
local body = ''
if settled > 0 then
  local names, acks, gone = {}, {}, {}
  for i = 1, settled do names[i] = ARGV[5 + i * 5] end
  local raw = redis.call('HMGET', keys.tasks, unpack(names))
  for i = 1, settled do
    local at = 5 + i * 5
    local task, stream, kind = names[i], KEYS[tonumber(ARGV[at + 2])], ARGV[at + 3]
    local r = not gone[task] and unpack_record(raw[i])
    if r and r[STATE] == 'r' and r[OWNER] == me and r[ATTEMPT] == tonumber(ARGV[at + 1]) and r[STREAM] == stream
      and is_owned(stream, r[ENTRY]) then
      gone[task] = true
      r[SEQ] = r[SEQ] + 1
      -- the last one waits: what starts now is told in the same entry
      if heads[1] then redis.call('XADD', keys.events, '*', 'h', heads[1], 'm', body) end
      heads[1] = event_head(kind, task, r[JOB], r, me, now, '')
      body = ARGV[at + 4]
      local ids = acks[stream]
      if not ids then
        ids = {}
        acks[stream] = ids
      end
      ids[#ids + 1] = r[ENTRY]
      records[#records + 1] = task
      records[#records + 1] = tombstone(r)
      count(string.sub(kind, 6))
      codes[i] = 'ok'
    else
      count('refused')
      codes[i] = 'lost'
    end
  end
  if #records > 0 then
    for stream, ids in pairs(acks) do
      redis.call('XACK', stream, GROUP, unpack(ids))
      redis.call('XDEL', stream, unpack(ids))
    end
    local done = {}
    for task in pairs(gone) do done[#done + 1] = task end
    redis.call('ZREM', keys.running, unpack(done))
    redis.call('ZREM', keys.deadlines, unpack(done))
  end
end

-- claim
local taken, renewals, deadlines = {}, {}, {}

local function take(stream, index, id, fields)
  local f, reason = parse_entry(fields, max_bytes)
  if not f then
    bury(keys, stream, id, fields, me, now, reason)
    buried[#buried + 1] = {reason, stream, id}
    return
  end
  local r = unpack_record(redis.call('HGET', keys.tasks, f.t))
  if not r then
    reason = 'the entry has no record'
    bury(keys, stream, id, fields, me, now, reason)
    buried[#buried + 1] = {reason, stream, id}
    return
  end
  if r[STATE] ~= 'w' or r[STREAM] ~= stream or r[ENTRY] ~= id or r[ATTEMPT] ~= f.a then
    -- a copy of an attempt that lives elsewhere or has ended: running it would be running it twice
    redis.call('XACK', stream, GROUP, id)
    redis.call('XDEL', stream, id)
    count('duplicates')
    return
  end
  local deadline = f.o > 0 and now + f.o or 0
  r[SEQ] = r[SEQ] + 1
  heads[#heads + 1] = event_head('task.started', f.t, f.j, r, me, now, '')
  if r[AGED] == 1 then redis.call('ZREM', KEYS[8], f.t) end
  records[#records + 1] = f.t
  records[#records + 1] = cmsgpack.pack({f.a, r[SEQ], 'r', r[DELIVERIES], r[LOSSES], stream, id, 0, me, f.j, now, now,
    deadline, 0, ''})
  renewals[#renewals + 1] = now
  renewals[#renewals + 1] = f.t
  if deadline > 0 then
    deadlines[#deadlines + 1] = deadline
    deadlines[#deadlines + 1] = f.t
  end
  claims[#claims + 1] = {index, id, r[DELIVERIES], r[LOSSES], deadline, f.t, f.j, f.a, f.e, f.o, f.m}
  taken[#taken + 1] = {index, id}
end

local function claim(index, most)
  local stream = KEYS[index]
  if redis.call('XLEN', stream) == 0 then return end
  -- unreadable entries make room for more, but a stream full of them must not hold the server
  for _ = 1, 10 do
    local want = most - #claims
    if want <= 0 then return end
    local read = redis.pcall('XREADGROUP', 'GROUP', GROUP, me, 'COUNT', want, 'STREAMS', stream, '>')
    if not read then return end
    if read.err then
      if string.sub(read.err, 1, 7) ~= 'NOGROUP' then return end
      redis.call('XGROUP', 'CREATE', stream, GROUP, '0')
    else
      for _, entry in ipairs(read[1][2]) do take(stream, index, entry[1], entry[2]) end
    end
  end
end

local open = not lanes[2] and redis.call('XLEN', keys.events) <= tonumber(ARGV[5])
if free > 0 and open then
  for tier = 0, 3 do
    for k = 0, lane_count - 1 do
      -- the starting lane rotates with the sequence number, so that no capability set starves another
      if #claims < free then claim(first_stream + ((number + k) % lane_count) * 5 + tier, free) end
    end
  end
  if #claims == 0 and ARGV[9] == '1' then
    local suspects = 0
    for k = 0, lane_count - 1 do
      local summary = redis.pcall('XPENDING', KEYS[first_stream + k * 5 + 4], GROUP)
      if not summary.err then suspects = suspects + summary[1] end
    end
    for k = 0, lane_count - 1 do
      if #claims == 0 and suspects < tonumber(ARGV[6]) then
        claim(first_stream + ((number + k) % lane_count) * 5 + 4, 1)
      end
    end
  end
  if #claims > 0 then
    redis.call('ZADD', keys.running, unpack(renewals))
    if #deadlines > 0 then redis.call('ZADD', keys.deadlines, unpack(deadlines)) end
  else
    -- nothing waits here, so no token is needed; drops those of tasks that busy engines took
    redis.call('DEL', unpack(KEYS, 9, first_stream - 1))
  end
end

if #heads > 0 then
  redis.call('XADD', keys.events, '*', 'h', table.concat(heads, '\n'), 'm', body)
  redis.call('HSET', keys.tasks, unpack(records))
end
for name, n in pairs(counts) do redis.call('HINCRBY', keys.counters, name, n) end
redis.call('HSET', KEYS[1], 'n', number, 'r', cmsgpack.pack({codes, taken}))
return {'OK', lanes[1], codes, claims, buried}
