#!lua flags=allow-oom
-- Renews the tasks that an engine holds; returns which were cancelled or lost, and its deliveries that it does not hold.
-- KEYS  1 session  2 tasks  3 running  4 deadlines  5 events  6 counters  7 lanes, then the streams of its lanes
-- ARGV  1 fence  2 engine id  3 largest entry in bytes  4 1: also find entries that it does not hold, then per held task:
--       task, attempt, index of its stream in KEYS, entry id, JSON progress ('' for none)
-- Returns {'FENCED'}, or {'OK', lanes version, answer per held task ('ok', 'cancel', 'lost'), claims not held};
--       claims are index of its stream in KEYS and then the claim as in settle_and_claim, in turn. Repeatable.
-- include: record, event, entry, unreadable, owner, again
local keys = {tasks = KEYS[2], running = KEYS[3], deadlines = KEYS[4], events = KEYS[5], counters = KEYS[6]}
local me, max_bytes = ARGV[2], tonumber(ARGV[3])
if redis.call('HGET', KEYS[1], 'f') ~= ARGV[1] then return {'FENCED'} end
local now = now_ms()
local codes, held, again = {}, {}, {}
for i = 5, #ARGV, 5 do
  local task, stream = ARGV[i], KEYS[tonumber(ARGV[i + 2])]
  local r = unpack_record(redis.call('HGET', keys.tasks, task))
  -- the entry, too: a released task may have been delivered to the same engine again, and is held once
  if r and r.state == 'r' and r.owner == me and r.attempt == tonumber(ARGV[i + 1]) and r.stream == stream
    and r.entry == ARGV[i + 3] and owns(stream, r.entry, me) then
    held[stream .. ' ' .. r.entry] = true
    -- JUSTID: renews the idle time that XPENDING shows without counting a delivery; we are the owner
    redis.call('XCLAIM', stream, GROUP, me, 0, r.entry, 'JUSTID')
    r.renewed = now
    if ARGV[i + 4] ~= '' then r.progress = ARGV[i + 4] end
    redis.call('HSET', keys.tasks, task, running(r))
    redis.call('ZADD', keys.running, now, task)
    codes[#codes + 1] = r.cancel == 1 and 'cancel' or 'ok'
  else
    codes[#codes + 1] = 'lost'
  end
end
if ARGV[4] == '1' then
  for index = 8, #KEYS do
    local stream = KEYS[index]
    local mine = redis.pcall('XPENDING', stream, GROUP, '-', '+', 256, me)
    if not mine.err then
      for _, pending in ipairs(mine) do
        local id = pending[1]
        if not held[stream .. ' ' .. id] then
          local claim = claim_again(keys, stream, id, me, max_bytes)
          if claim then
            again[#again + 1] = index
            again[#again + 1] = claim
          else
            -- a ghost (its payload is gone), a copy or an entry of another program: no engine can run it, and it must not
            -- stay with a live owner
            local entry = redis.call('XRANGE', stream, id, id)[1]
            local f, reason
            if entry then f, reason = parse_entry(entry[2], max_bytes) end
            if f and not unpack_record(redis.call('HGET', keys.tasks, f.t)) then reason = NO_RECORD end
            if reason then
              dead_letter(keys, stream, id, entry[2], me, now, reason)
            else
              redis.call('XACK', stream, GROUP, id)
              redis.call('XDEL', stream, id)
              redis.pcall('HINCRBY', keys.counters, 'ghosts', 1)
            end
          end
        end
      end
    end
  end
end
return {'OK', redis.call('HGET', KEYS[7], '#v'), codes, again}
