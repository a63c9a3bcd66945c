#!lua flags=allow-oom
-- Settles the tasks that an engine finished, then claims as many as it has room for, in one round trip.
-- KEYS  1 session  2 tasks  3 running  4 deadlines  5 events  6 counters  7 lanes, then the wake key of each of the
--       engine's L lanes, then the five streams of each lane in claiming order, then the suspect streams of the
--       queue's other lanes
-- ARGV  1 fence  2 engine id  3 sequence number of this call  4 how many to claim  5 how many suspects may run at once in
--       the queue (0: this engine is not empty)  6 longest event backlog at which tasks are claimed  7 L  8 n settlements,
--       grouped by stream  9 index of each of their streams in KEYS : how many (1, the session: a stream that this engine
--       does not read any more; refused)  10 their kinds  11 heads and  12 JSON bodies of their events, a line each,
--       then the field of each lane in the hash of lanes, then n task ids, n starts of the records that the tasks must
--       have (record.lua), n entry ids
-- Returns {'FENCED'} when the session is gone; {'SEQUENCE', last} for a call out of order; {'AGAIN', lanes version, codes,
--       entry ids} for a repeated call; else {'OK', lanes version, codes, now, unreadable, claims}.
--       codes: a digit per settlement, 1 settled, 0 refused. claims: index of the stream in KEYS and lines of task, record,
--       head and JSON, in turn. unreadable: index and entry id in turn, for dead_letter. entry ids: what the lost reply
--       claimed, separated by spaces, for renew.
-- Repeatable: a call with the last sequence number gets the stored answer.
-- include: record, event, entry, owner, marks
local call, concat = redis.call, table.concat
local MAX_EVENT_BYTES, MAX_READS = 1048576, 10
local tasks, events, counters, me = KEYS[2], KEYS[5], KEYS[6], ARGV[2]
local number, free, lane_count, n = ARGV[3] + 0, ARGV[4] + 0, ARGV[7] + 0, ARGV[8] + 0

local session = call('HMGET', KEYS[1], 'f', 'n', 'r')
local last = tonumber(session[2])
if session[1] ~= ARGV[1] or not last then
  if n > 0 then redis.pcall('HINCRBY', counters, 'refused', n) end
  return {'FENCED'}
end
local lanes = call('HMGET', KEYS[7], '#v', '#paused', unpack(ARGV, 13, 12 + lane_count))
if last == number then
  local codes, ids = string.match(session[3], '^(%d*) ?(.*)$')
  return {'AGAIN', lanes[1], codes, ids}
end
if last + 1 ~= number then return {'SEQUENCE', session[2]} end
local backlog = call('XLEN', events) -- also raises before the first write if the key has another type

-- settle: both the record and the PEL must name this engine, at this attempt
local of_task = 12 + lane_count
local of_start, of_entry, i = of_task + n, of_task + 2 * n, 0
local codes, settled, writes, totals = {}, {}, {}, {refused = 0, duplicates = 0}
local raws = n > 0 and call('HMGET', tasks, unpack(ARGV, of_task + 1, of_start))
local next_kind = string.gmatch(ARGV[10], '%l+')
for index, count in string.gmatch(ARGV[9], '(%d+):(%d+)') do
  local stream, ids = KEYS[index + 0], {}
  local mine = pending_of(stream, me, count + 0)
  for _ = 1, count do
    i = i + 1
    local task, start, entry, kind = ARGV[of_task + i], ARGV[of_start + i], ARGV[of_entry + i], next_kind()
    if is_running_as(raws[i], start) and (mine[entry] or owns(stream, entry, me)) then
      codes[i], settled[#settled + 1], ids[#ids + 1] = '1', task, entry
      writes[#writes + 1], writes[#writes + 2] = task, tombstone_of(start)
      totals[kind] = (totals[kind] or 0) + 1
    else
      codes[i], totals.refused = '0', totals.refused + 1
    end
  end
  if ids[1] then -- before the claim: a settled suspect makes room for the next
    call('XACK', stream, GROUP, unpack(ids))
    call('XDEL', stream, unpack(ids))
  end
end
-- one event entry for all that ends and starts in this call, unless the client's lines can't be taken as they are
local heads, bodies = {ARGV[11]}, ARGV[12]
if n == 0 or totals.refused > 0 or #bodies > MAX_EVENT_BYTES then
  local next_head, next_body = string.gmatch(ARGV[11], '[^\n]+'), string.gmatch(ARGV[12], '[^\n]+')
  for task = 1, n do
    local head, body = next_head(), next_body()
    if codes[task] == '1' then call('XADD', events, '*', 'h', head, 'm', body) end
  end
  heads, bodies = {}, ''
end
local now = integer(now_ms())

-- claim: tiers in strict order; within a tier the first lane rotates with the sequence number
local first_stream = 8 + lane_count
if lanes[2] or backlog > ARGV[6] + 0 then free = 0 end
local may_claim = free > 0
local claims, claimed, unreadable, renewals, deadlines = {}, {}, {}, {}, {}

local function take(entries, index)
  local stream, ids = KEYS[index], {}
  for i = 1, #entries do ids[i] = entries[i][2][2] or '' end
  local raws = call('HMGET', tasks, unpack(ids))
  for i = 1, #entries do
    local id, fields, task, raw = entries[i][1], entries[i][2], ids[i], raws[i]
    local timeout, numbers = waiting_as(raw, id, stream)
    local r = not timeout and unpack_record(raw)
    if timeout and is_entry(fields) then
      local deadline = timeout ~= '0' and integer(now + timeout) or '0'
      free, claimed[#claimed + 1] = free - 1, id
      claims[#claims + 1], claims[#claims + 2] = index, task .. '\n' .. raw .. '\n' .. fields[4] .. '\n' .. fields[6]
      heads[#heads + 1] = event_line('task.started', task, numbers, me, '', '')
      writes[#writes + 1], writes[#writes + 2] = task, started(raw, me, now, deadline)
      renewals[#renewals + 1], renewals[#renewals + 2] = now, task
      if deadline ~= '0' then deadlines[#deadlines + 1], deadlines[#deadlines + 2] = deadline, task end
    elseif r and is_entry(fields) and not (r.state == 'w' and r.entry == id and r.stream == stream) then
      -- a copy of an attempt that lives elsewhere or has ended: running it would be running it twice
      call('XACK', stream, GROUP, id)
      call('XDEL', stream, id)
      totals.duplicates = totals.duplicates + 1
    else
      unreadable[#unreadable + 1], unreadable[#unreadable + 2] = index, id
    end
  end
end

local function has_entries(stream)
  local length = redis.pcall('XLEN', stream)
  return type(length) == 'number' and length > 0
end

-- entries never delivered before. An error means none: a stream that is gone, or a key of another type
local function read_new(stream, count)
  local page = redis.pcall('XREADGROUP', 'GROUP', GROUP, me, 'COUNT', count, 'STREAMS', stream, '>')
  if page and page.err and string.sub(page.err, 1, 7) == 'NOGROUP' and has_entries(stream) then
    call('XGROUP', 'CREATE', stream, GROUP, '0')
    page = call('XREADGROUP', 'GROUP', GROUP, me, 'COUNT', count, 'STREAMS', stream, '>')
  end
  return page and not page.err and page[1][2] or {}
end

-- suspects: one, alone on an empty engine, and few at a time in the whole queue
local function may_run_suspect()
  local running = 0
  for index = first_stream + 4, #KEYS do
    local is_suspect = index >= first_stream + lane_count * 5 or (index - first_stream) % 5 == 4
    local pending = is_suspect and redis.pcall('XPENDING', KEYS[index], GROUP)
    if pending and not pending.err then running = running + pending[1] end
  end
  return #claimed == 0 and running < ARGV[5] + 0
end

-- marks may be lost with a write of another program: now and then, and when there are none, all streams are read
local read_all = number % 64 == 1 or not any_mark(lanes, lane_count)
for tier = 1, may_claim and 5 or 0 do
  for step = 1, lane_count do
    local lane = (number + step) % lane_count + 1
    local index = first_stream + (lane - 1) * 5 + tier - 1
    if free > 0 and (is_marked(lanes[2 + lane], tier) or read_all and has_entries(KEYS[index])) then
      if tier == 5 then free = may_run_suspect() and 1 or 0 end
      -- what can't be run makes room for more, but a stream full of it must not hold the server
      local reads, wanted, found = 0, 0, 0
      while free > 0 and found == wanted and reads < MAX_READS do
        local page = read_new(KEYS[index], free)
        reads, wanted, found = reads + 1, free, #page
        if found > 0 then take(page, index) end
      end
      if wanted > 0 then
        lanes[2 + lane] = write_mark(KEYS[7], ARGV[12 + lane], lanes[2 + lane], tier, found == wanted)
      end
    end
  end
end

-- write the truth first, then the indexes and counters, so that a key of another type costs no result
if heads[1] then call('XADD', events, '*', 'h', concat(heads, '\n'), 'm', bodies) end
if writes[1] then call('HSET', tasks, unpack(writes)) end
codes = concat(codes)
call('HSET', KEYS[1], 'n', ARGV[3], 'r', codes .. ' ' .. concat(claimed, ' '))
if settled[1] then -- a refused one may run elsewhere: it stays in the indexes
  call('ZREM', KEYS[3], unpack(settled))
  call('ZREM', KEYS[4], unpack(settled))
end
if claimed[1] then
  call('ZADD', KEYS[3], unpack(renewals))
  if deadlines[1] then call('ZADD', KEYS[4], unpack(deadlines)) end
elseif may_claim then
  call('DEL', unpack(KEYS, 8, first_stream - 1)) -- nothing waits, so no wake-up token is needed
end
for kind, count in pairs(totals) do -- a counter that is no number, or a key of another type, costs only its count
  if count > 0 then redis.pcall('HINCRBY', counters, kind, count) end
end
return {'OK', lanes[1], codes, now, unreadable, claims}
