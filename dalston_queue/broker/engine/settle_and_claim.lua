#!lua flags=allow-oom
-- Settles what an engine has finished and claims what it has room for, in one round trip.
-- KEYS  1 session  2 tasks  3 running  4 deadlines  5 events  6 counters  7 lanes  8 ageing, then the wake key of each of
--       the engine's L lanes, then the five streams of each lane in claiming order, then the suspect streams of the
--       queue's other lanes
-- ARGV  1 fence  2 engine id  3 numbers with spaces between: sequence number of this call, how many to claim, most
--       suspects at once (0 when the engine is not empty), longest event backlog ('' to skip the look), L, settlements n, kind of all
--       their events (- if they differ), 1 if any of them has a deadline, index in KEYS of the stream of all of them (0 if
--       they differ or are none), then index:count of each of their streams. The index of a stream that the engine does
--       not read any more is 1, the session: what is settled there is refused
--       4 heads of their events, a line each  5 JSON bodies, a line each, then the field of each lane in the hash of
--       lanes, then, in the order of their streams, n task ids, n starts of the records that they must have, without the
--       letter of the state, n entry ids
-- Returns {'FENCED'} before anything else when the session is gone; {'SEQUENCE', last} for a call out of order; {'AGAIN',
--       lanes version, codes, places} for a repeated call; else {'OK', lanes version, codes, now, event backlog or -1,
--       unreadable, claims …}.
--       codes: a letter per settlement, 1 settled, 0 refused; unreadable: 0, or index, entry id, …, to be dead_lettered with
--       dead_letter; claims: index of a stream in KEYS, followed by a claim for each entry of it: lines of task, record, head and
--       JSON; places: entry ids with spaces between, to be fetched with beat.
-- Repeatable: a call with the last sequence number gets the stored answer.
-- The hot path: straight code that compares and copies bytes which append and the client prepared, because in Lua
-- numbers, tables and closures cost more than the commands. One command serves all tasks of the call. A table that grows
-- costs more than what is put into it: {nil, nil} and {unpack(none, 1, 2)} have room for two.
local call, pcall, sub, byte, find, match = redis.call, redis.pcall, string.sub, string.byte, string.find, string.match
local KEYS, ARGV, unpack = KEYS, ARGV, unpack -- a global costs a look into a table each time
local GROUP, MAX_ENTRY_BYTES, MAX_EVENT_BYTES, MAX_ID = 'engines', 8388608, 1048576, 200
local WAITING, RUNNING = 119, 114 -- the letters w and r
local none = {}
local me = ARGV[2]
local n1, n2, n3, most_events, n5, n6, kind, with_deadline, only, streams =
  match(ARGV[3], '^(%d+) (%d+) (%d+) (%d*) (%d+) (%d+) (%S+) ([01]) (%d+) ?(.*)$')
local number, free, lane_count, settling = n1 + 0, n2 + 0, n5 + 0, n6 + 0
local tasks, events, lanes_key = KEYS[2], KEYS[5], KEYS[7]
local session = call('HMGET', KEYS[1], 'f', 'n')
if session[1] ~= ARGV[1] then
  if settling > 0 then call('HINCRBY', KEYS[6], 'refused', settling) end
  return {'FENCED'}
end
local of_task = 5 + lane_count
local lanes = call('HMGET', lanes_key, '#v', '#paused', unpack(ARGV, 6, of_task))
local last = session[2] + 0
if last == number then
  local codes, places = match(call('HGET', KEYS[1], 'r'), '^(%d*) ?(.*)$')
  return {'AGAIN', lanes[1], codes, places}
end
if last + 1 ~= number then return {'SEQUENCE', session[2]} end

-- who owns what is settled: the PEL has the last word. Asked before the claim adds to it
local of_start, of_entry = of_task + settling, of_task + 2 * settling
local lost, only_stream = {nil}, KEYS[only + 0] -- lost[i]: settlement i is refused
if settling == 1 then
  local id = ARGV[of_entry + 1]
  local found = pcall('XPENDING', only_stream, GROUP, id, id, 1, me)
  lost[1] = found.err ~= nil or #found ~= 1
elseif settling > 0 then
  local i = 0
  for index, count in string.gmatch(streams, '(%d+):(%d+)') do
    local found = pcall('XPENDING', KEYS[index + 0], GROUP, '-', '+', 512, me)
    local at, mine = 1, nil
    for _ = 1, count + 0 do
      i = i + 1
      local id, next_one = ARGV[of_entry + i], found[at]
      if next_one and next_one[1] == id then -- as a rule both are in the same order
        at = at + 1
      else
        if not mine then
          mine = {}
          for n = at, #found do mine[found[n][1]] = true end
          at = #found + 1
        end
        local is_mine = mine[id]
        if not is_mine and #found == 512 then -- it may stand behind those that were looked at
          local one = pcall('XPENDING', KEYS[index + 0], GROUP, id, id, 1, me)
          is_mine = not one.err and #one == 1
        end
        lost[i] = not is_mine
        mine[id] = nil
      end
    end
  end
end

-- claim: tiers in strict order; within a tier the starting lane rotates with the sequence number
local first_stream = 9 + lane_count
local backlog = most_events ~= '' and call('XLEN', events) or -1
local may_claim = free > 0 and not lanes[2] and (backlog < 0 or backlog <= most_events + 0)
local look_everywhere = number % 64 == 1 -- marks may be lost with a foreign hand: look at times without them
local marks_changed
local codes, unreadable, heads, ids, records, reply = '', 0, {nil}, {nil}, {nil, nil, nil, nil}, nil
local claimed, refused, rounds = 0, 0, 0
local filled, named, timeouts = 6, 0, nil -- last place of the reply in use, index of the stream that it named last
local by_me = '\t' .. me .. '\t\t'
repeat
  rounds = rounds + 1
  local entries
  local last_of, index_of = {nil}, {nil} -- for each stream that was read: its last place in entries, its index in KEYS
  local count, offset, streams_read = 0, rounds == 1 and settling or 0, 0
  local want = may_claim and free - claimed or 0
  local tier = look_everywhere and 0 or 5
  for lane = 3, want > 0 and tier == 5 and lane_count + 2 or 0 do -- the first tier that has a mark
    local first = lanes[lane] and find(lanes[lane], '1', 1, true)
    if first and first <= tier then tier = first - 1 end
  end
  while want > 0 do
    if tier == 5 then
      if count > 0 or look_everywhere then break end
      look_everywhere, tier = true, 0
    end
    for step = 0, lane_count - 1 do
      local lane = (number + step) % lane_count
      local marks = lanes[3 + lane]
      local marked = marks and byte(marks, tier + 1) == 49
      local index = first_stream + lane * 5 + tier
      -- a foreign hand may have put something else in its place: then it has no length
      local length = want > 0 and not marked and look_everywhere and pcall('XLEN', KEYS[index])
      if want > 0 and (marked or type(length) == 'number' and length > 0) then
        local stream = KEYS[index]
        if tier == 4 then
          -- suspects: one, alone on an empty engine, and few at a time in the whole queue
          want = 0
          if claimed == 0 and count == 0 then
            local room = n3 + 0
            for other = 0, room > 0 and lane_count - 1 or -1 do
              local pending = pcall('XPENDING', KEYS[first_stream + other * 5 + 4], GROUP)
              if not pending.err then room = room - pending[1] end
            end
            for other = first_stream + lane_count * 5, room > 0 and #KEYS or 0 do
              local pending = pcall('XPENDING', KEYS[other], GROUP)
              if not pending.err then room = room - pending[1] end
            end
            -- what this call settles is still pending here
            local i = 0
            for of, settled in string.gmatch(streams, '(%d+):(%d+)') do
              local suspects = of + 0 >= first_stream and (of - first_stream) % 5 == 4
              for _ = 1, settled + 0 do
                i = i + 1
                if suspects and not lost[i] then room = room + 1 end
              end
            end
            if room > 0 then want = 1 end
          end
        end
        local got = want > 0 and pcall('XREADGROUP', 'GROUP', GROUP, me, 'COUNT', want, 'STREAMS', stream, '>')
        if got and got.err and sub(got.err, 1, 7) == 'NOGROUP' and call('XLEN', stream) > 0 then
          call('XGROUP', 'CREATE', stream, GROUP, '0')
          got = pcall('XREADGROUP', 'GROUP', GROUP, me, 'COUNT', want, 'STREAMS', stream, '>')
        end
        if got and not got.err then
          local found = got[1][2]
          local size = #found
          if count == 0 then
            entries = found
          else
            for i = 1, size do entries[count + i] = found[i] end
          end
          count, streams_read = count + size, streams_read + 1
          last_of[streams_read], index_of[streams_read] = count, index
          want = want - size
          if marks and not marked then
            lanes[3 + lane] = sub(marks, 1, tier) .. '1' .. sub(marks, tier + 2)
            marks_changed = true
          end
        elseif want > 0 and marked then
          lanes[3 + lane] = sub(marks, 1, tier) .. '0' .. sub(marks, tier + 2)
          marks_changed = true
        end
      end
    end
    tier = tier + 1
  end

  local raws, ids_text
  if count == 1 then
    ids_text = entries[1][2][2] or ''
    raws = offset == 1 and call('HMGET', tasks, ARGV[of_task + 1], ids_text)
  end
  if not raws and offset + count > 0 then
    local names = {unpack(none, 1, offset + count)}
    for i = 1, offset do names[i] = ARGV[of_task + i] end
    for i = 1, count do names[offset + i] = entries[i][2][2] or '' end
    ids_text = table.concat(names, '', offset + 1)
    raws = call('HMGET', tasks, unpack(names))
  end

  -- settle: everything is checked before the first write of it
  if rounds == 1 then
    for i = 1, settling do
      local raw = raws[i]
      if lost[i] or not raw or byte(raw) ~= RUNNING or find(raw, ARGV[of_start + i], 2, true) ~= 2 then
        lost[i] = true
        refused = refused + 1
      end
    end
    if count > 1 then heads, ids = {unpack(none, 1, count)}, {unpack(none, 1, count)} end
    if settling + count > 2 then records = {unpack(none, 1, 2 * (settling + count))} end
    reply = count < 2 and {nil, nil, nil, nil, nil, nil, nil, nil} or {unpack(none, 1, 6 + count + streams_read)}
  end

  -- an id with one of these would end its line in what we answer and tell: append knows none such
  local strange_ids = count > 0 and (find(ids_text, '\t', 1, true) or find(ids_text, '\n', 1, true))
  local readable = 0
  local of_stream, last_place, index, of_record = 0, 0, 0, ''
  for i = 1, count do
    if i > last_place then
      of_stream = of_stream + 1
      last_place, index = last_of[of_stream], index_of[of_stream]
      of_record = '\t' .. KEYS[index] .. '\t'
    end
    local entry, raw = entries[i], raws[offset + i]
    local id, f = entry[1], entry[2]
    local aged, timeout, told
    -- our version, our fields first; a newer sender may add fields behind them
    local ours = f[1] == 't' and f[3] == 'h' and f[5] == 'm' and sub(f[4], 1, 2) == '1\t'
    if ours then
      local bytes, length = #f[4] + #f[6], #f[2]
      for k = 8, #f, 2 do bytes = bytes + #f[k] end
      ours = bytes <= MAX_ENTRY_BYTES and length > 0 and length <= MAX_ID and not (strange_ids and find(f[2], '[\t\n]'))
    end
    if ours and raw and byte(raw) == WAITING and find(raw, id, 3, true) == 3 then
      local at = 3 + #id
      if find(raw, of_record, at, true) == at then
        local rest -- its place: a pattern that takes it would walk along it byte by byte
        aged, timeout, rest = match(raw, '^(%d)\t(%d+)\t()', at + #of_record)
        told = rest and rest <= #raw and sub(raw, rest)
      end
    end
    if told then
      local task = f[2]
      claimed, readable = claimed + 1, readable + 1
      ids[claimed] = id
      heads[claimed] = 'task.started\t' .. task .. '\t' .. told .. by_me
      records[2 * claimed - 1], records[2 * claimed] = task, raw
      if timeout ~= '0' then
        timeouts = timeouts or {}
        timeouts[claimed] = timeout
      end
      if aged == '1' then call('ZREM', KEYS[8], task) end
      filled = filled + 1
      if named ~= index then
        named, reply[filled] = index, index
        filled = filled + 1
      end
      reply[filled] = task .. '\n' .. raw .. '\n' .. f[4] .. '\n' .. f[6]
    elseif not ours or not raw or not match(f[4], '^1\t[^\t]*\t%d+\t%d+\t%d+') or not match(raw, '^[wrs]\t') then
      if unreadable == 0 then unreadable = {} end
      unreadable[#unreadable + 1] = index
      unreadable[#unreadable + 1] = id
    else
      -- a copy of an attempt that lives elsewhere or has ended: running it would be running it twice
      call('XACK', KEYS[index], GROUP, id)
      call('XDEL', KEYS[index], id)
      call('HINCRBY', KEYS[6], 'duplicates', 1)
    end
  end
-- what can't be run makes room for more, but a stream full of it must not hold the server
until readable == count or rounds == 10

-- tell: one entry for all that ends and starts, unless it would be too large
local told_ends, bodies = '', ''
if settling > 0 then
  told_ends, bodies = ARGV[4], ARGV[5]
  codes = settling == 1 and '1' or string.rep('1', settling)
  if refused > 0 or #bodies > MAX_EVENT_BYTES then
    local next_head, next_body = string.gmatch(told_ends, '[^\n]+'), string.gmatch(bodies, '[^\n]+')
    told_ends, bodies, codes = '', '', ''
    for task = 1, settling do
      local head, body = next_head(), next_body()
      if not lost[task] then
        if told_ends ~= '' then call('XADD', events, '*', 'h', told_ends, 'm', bodies) end
        told_ends, bodies = head, body
      end
      codes = codes .. (lost[task] and '0' or '1')
    end
  end
end
local now = '0'
if told_ends ~= '' or claimed > 0 then
  local told = told_ends
  if claimed > 0 then
    local started = claimed == 1 and heads[1] or table.concat(heads, '\n')
    told = told == '' and started or told .. '\n' .. started
  end
  -- its id is the time of everything in this call
  now = match(call('XADD', events, '*', 'h', told, 'm', bodies), '^%d+')
end

-- write what ended; a tombstone is the record that it had, with another state
local written = 2 * claimed
if settling > refused then
  for i = 1, settling do
    if not lost[i] then
      records[written + 1], records[written + 2] = ARGV[of_task + i], 's' .. ARGV[of_start + i]
      written = written + 2
    end
  end
  if refused == 0 and only_stream then
    call('XACK', only_stream, GROUP, unpack(ARGV, of_entry + 1))
    call('XDEL', only_stream, unpack(ARGV, of_entry + 1))
  else
    local i = 0
    for index, count in string.gmatch(streams, '(%d+):(%d+)') do
      for _ = 1, count + 0 do
        i = i + 1
        if not lost[i] then
          call('XACK', KEYS[index + 0], GROUP, ARGV[of_entry + i])
          call('XDEL', KEYS[index + 0], ARGV[of_entry + i])
        end
      end
    end
  end
  -- a refused one may run elsewhere: its places in the indices are not ours to clear
  local done = ARGV
  local from, to = of_task + 1, of_start
  if refused > 0 then
    done, from, to = {}, 1, settling - refused
    for i = 2 * claimed + 1, written, 2 do done[#done + 1] = records[i] end
  end
  call('ZREM', KEYS[3], unpack(done, from, to))
  if with_deadline == '1' then call('ZREM', KEYS[4], unpack(done, from, to)) end
  if kind ~= '-' then
    call('HINCRBY', KEYS[6], kind, settling - refused)
  else
    local i = 0
    for each in string.gmatch(ARGV[4], 'task%.(%l+)[^\n]*') do
      i = i + 1
      if not lost[i] then call('HINCRBY', KEYS[6], each, 1) end
    end
  end
end
if refused > 0 then call('HINCRBY', KEYS[6], 'refused', refused) end

-- write what started
local places = ''
if claimed > 0 then
  local suffix = '\t' .. me .. '\t' .. now .. '\t' .. now .. '\t'
  local deadlines, late = timeouts and {unpack(none, 1, 2 * claimed)}, 0
  local renewals = claimed == 1 and {nil, nil} or {unpack(none, 1, 2 * claimed)}
  for i = 1, claimed do
    local task, deadline = records[2 * i - 1], '0'
    if timeouts and timeouts[i] then
      deadline = string.format('%.0f', now + timeouts[i])
      deadlines[late + 1], deadlines[late + 2] = deadline, task
      late = late + 2
    end
    renewals[2 * i - 1], renewals[2 * i] = now, task
    records[2 * i] = 'r' .. sub(records[2 * i], 2) .. suffix .. deadline .. '\t0\t'
  end
  call('ZADD', KEYS[3], unpack(renewals))
  if deadlines then call('ZADD', KEYS[4], unpack(deadlines, 1, late)) end
  places = ' ' .. (claimed == 1 and ids[1] or table.concat(ids, ' '))
elseif may_claim then
  -- nothing waits here, so no token is needed; drops those of tasks that busy engines took
  call('DEL', unpack(KEYS, 9, first_stream - 1))
end
if written > 0 then call('HSET', tasks, unpack(records, 1, written)) end
if marks_changed then
  for lane = 1, lane_count do
    if lanes[2 + lane] then call('HSET', lanes_key, ARGV[5 + lane], lanes[2 + lane]) end
  end
end
call('HSET', KEYS[1], 'n', n1, 'r', codes .. places)
reply[1], reply[2], reply[3], reply[4], reply[5], reply[6] = 'OK', lanes[1], codes, now, backlog, unreadable
return reply
