#!lua flags=allow-oom
-- Settles what an engine has finished and claims what it has room for, in one round trip.
-- KEYS  1 session  2 tasks  3 running  4 deadlines  5 events  6 counters  7 lanes  8 ageing, then the wake key of each of
--       the engine's L lanes, then the five streams of each lane in claiming order
-- ARGV  1 fence  2 engine id  3 longest event backlog  4 sequence number of this call  5 how many to claim
--       6 most suspects at once; 0 when the engine is not empty
--       then per settlement: 'task, attempt, index of its stream in KEYS, event kind' (by tabs), JSON body
-- Returns {'FENCED'} before anything else when the session is gone; {'SEQUENCE', last} for a call out of order; {'AGAIN',
--       lanes version, codes, places} for a repeated call; else {'OK', lanes version, codes, claims, unreadable}.
--       codes: a letter per settlement, 1 settled, 0 refused; a claim: {index of its stream in KEYS, entry id, deliveries, losses,
--       deadline, task, job, attempt, enqueued_at, timeout, JSON}; unreadable: index, entry id, …, to be buried with
--       bury; places: entry ids with spaces between, to be fetched with beat.
-- Repeatable: a call with the last sequence number gets the stored answer.
-- The hot path: straight code, because closures, arguments and fields cost more than the commands.
-- include: record
local me, number, free = ARGV[2], tonumber(ARGV[4]), tonumber(ARGV[5])
local lane_count = (#KEYS - 8) / 6
local tasks, events = KEYS[2], KEYS[5]
local settling = #ARGV - 6
local session = redis.call('HMGET', KEYS[1], 'f', 'n', 'r')
if session[1] ~= ARGV[1] then
  if settling > 0 then redis.call('HINCRBY', KEYS[6], 'refused', settling / 2) end
  return {'FENCED'}
end
local lanes = redis.call('HMGET', KEYS[7], '#v', '#paused')
local last = tonumber(session[2])
if last == number then
  local codes, places = string.match(session[3], '^(%d*) ?(.*)$')
  return {'AGAIN', lanes[1], codes, places}
end
if last + 1 ~= number then return {'SEQUENCE', session[2]} end

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local now_text = string.format('%.0f', now)
local codes, claims, places, unreadable = '', {}, '', {}
local records, heads, body = {}, {}, ''

-- settle: everything is checked before the first write; the writes of all settlements go together
if settling > 0 then
  local names, attempts, streams, kinds = {}, {}, {}, {}
  for i = 7, #ARGV, 2 do
    local n = #names + 1
    local task, attempt, index, kind = string.match(ARGV[i], '^(.-)\t(.-)\t(.-)\t(.-)$')
    names[n], attempts[n], streams[n], kinds[n] = task, tonumber(attempt), KEYS[tonumber(index)], kind
  end
  local raw = redis.call('HMGET', tasks, unpack(names))
  local owned, acks, gone, done, counts = {}, {}, {}, {}, {}
  for n = 1, #names do
    local task, stream, kind = names[n], streams[n], kinds[n]
    local r = not gone[task] and unpack_record(raw[n])
    local ok = r and r[STATE] == 'r' and r[OWNER] == me and r[ATTEMPT] == attempts[n] and r[STREAM] == stream
    if ok then
      -- the PEL has the last word on who owns an entry; one look per stream tells of all that we hold
      local mine = owned[stream]
      if not mine then
        mine = {}
        owned[stream] = mine
        local pending = redis.pcall('XPENDING', stream, GROUP, '-', '+', 512, me)
        for i = 1, pending.err and 0 or #pending do mine[pending[i][1]] = true end
      end
      ok = mine[r[ENTRY]]
    end
    if ok then
      gone[task] = true
      done[#done + 1] = task
      r[SEQ] = r[SEQ] + 1
      -- the last event waits: what starts now is told in the same entry
      if heads[1] then redis.call('XADD', events, '*', 'h', heads[1], 'm', body) end
      heads[1] = kind .. '\t' .. task .. '\t' .. r[JOB] .. '\t' .. r[ATTEMPT] .. '\t' .. r[SEQ] .. '\t' .. r[DELIVERIES]
        .. '\t' .. r[LOSSES] .. '\t' .. me .. '\t' .. now_text .. '\t'
      body = ARGV[n * 2 + 6]
      local ids = acks[stream]
      if ids then ids[#ids + 1] = r[ENTRY] else acks[stream] = {r[ENTRY]} end
      records[#records + 1] = task
      records[#records + 1] = tombstone(r)
      kind = string.sub(kind, 6)
      codes = codes .. '1'
    else
      kind = 'refused'
      codes = codes .. '0'
    end
    counts[kind] = (counts[kind] or 0) + 1
  end
  for stream, ids in pairs(acks) do
    redis.call('XACK', stream, GROUP, unpack(ids))
    redis.call('XDEL', stream, unpack(ids))
  end
  if #done > 0 then
    redis.call('ZREM', KEYS[3], unpack(done))
    redis.call('ZREM', KEYS[4], unpack(done))
  end
  for kind, n in pairs(counts) do redis.call('HINCRBY', KEYS[6], kind, n) end
end

-- claim: tiers in strict order; within a tier the starting lane rotates with the sequence number
if free > 0 and not lanes[2] and redis.call('XLEN', events) <= tonumber(ARGV[3]) then
  local first_stream = 9 + lane_count
  local renewals, deadlines = {}, {}
  local suspects = tonumber(ARGV[6])
  for step = 0, 5 * lane_count - 1 do
    local tier = math.floor(step / lane_count)
    local index = first_stream + ((number + step) % lane_count) * 5 + tier
    local stream = KEYS[index]
    local want = free - #claims
    if want > 0 and tier == 4 then
      -- suspects: one, alone on an empty engine, and few at a time
      if step == 4 * lane_count and suspects > 0 then
        for lane = 0, lane_count - 1 do
          local summary = redis.pcall('XPENDING', KEYS[first_stream + lane * 5 + 4], GROUP)
          if not summary.err then suspects = suspects - summary[1] end
        end
      end
      want = (#claims == 0 and suspects > 0) and 1 or 0
    end
    -- what can't be run makes room for more, but a stream full of it must not hold the server
    local rounds = 0
    while want > 0 and rounds < 10 and redis.call('XLEN', stream) > 0 do
      rounds = rounds + 1
      local read = redis.pcall('XREADGROUP', 'GROUP', GROUP, me, 'COUNT', want, 'STREAMS', stream, '>')
      if not read then break end
      if read.err then
        if string.sub(read.err, 1, 7) ~= 'NOGROUP' then break end
        redis.call('XGROUP', 'CREATE', stream, GROUP, '0')
      else
        local entries = read[1][2]
        for i = 1, #entries do
          local id, f = entries[i][1], entries[i][2]
          -- the first seven fields in our order; what a newer sender adds comes after them
          local readable = f[1] == 'v' and f[2] == '1' and f[3] == 't' and f[5] == 'j' and f[7] == 'a' and f[9] == 'e'
            and f[11] == 'o' and f[13] == 'm' and #f[14] <= MAX_ENTRY_BYTES
          local attempt, timeout = readable and tonumber(f[8]), readable and tonumber(f[12])
          local r = attempt and timeout and unpack_record(redis.call('HGET', tasks, f[4]))
          if not r then
            unreadable[#unreadable + 1] = index
            unreadable[#unreadable + 1] = id
          elseif r[STATE] ~= 'w' or r[ENTRY] ~= id or r[STREAM] ~= stream or r[ATTEMPT] ~= attempt then
            -- a copy of an attempt that lives elsewhere or has ended: running it would be running it twice
            redis.call('XACK', stream, GROUP, id)
            redis.call('XDEL', stream, id)
            redis.call('HINCRBY', KEYS[6], 'duplicates', 1)
          else
            local task, job, seq = f[4], f[6], r[SEQ] + 1
            local deadline = timeout > 0 and now + timeout or 0
            if r[AGED] == 1 then redis.call('ZREM', KEYS[8], task) end
            heads[#heads + 1] = 'task.started\t' .. task .. '\t' .. job .. '\t' .. f[8] .. '\t' .. seq .. '\t' .. r[DELIVERIES]
              .. '\t' .. r[LOSSES] .. '\t' .. me .. '\t' .. now_text .. '\t'
            records[#records + 1] = task
            records[#records + 1] = cmsgpack.pack({attempt, seq, 'r', r[DELIVERIES], r[LOSSES], stream, id, 0, me, job, now,
              now, deadline})
            renewals[#renewals + 1] = now_text
            renewals[#renewals + 1] = task
            if deadline > 0 then
              deadlines[#deadlines + 1] = string.format('%.0f', deadline)
              deadlines[#deadlines + 1] = task
            end
            claims[#claims + 1] = {index, id, r[DELIVERIES], r[LOSSES], deadline, task, job, attempt, f[10], timeout, f[14]}
            places = places .. ' ' .. id
          end
        end
      end
      want = tier == 4 and 1 - #claims or free - #claims
    end
  end
  if #claims > 0 then
    redis.call('ZADD', KEYS[3], unpack(renewals))
    if #deadlines > 0 then redis.call('ZADD', KEYS[4], unpack(deadlines)) end
  else
    -- nothing waits here, so no token is needed; drops those of tasks that busy engines took
    redis.call('DEL', unpack(KEYS, 9, first_stream - 1))
  end
end

if heads[1] then
  redis.call('XADD', events, '*', 'h', table.concat(heads, '\n'), 'm', body)
  redis.call('HSET', tasks, unpack(records))
end
redis.call('HSET', KEYS[1], 'n', ARGV[4], 'r', codes .. places)
return {'OK', lanes[1], codes, claims, unreadable}
