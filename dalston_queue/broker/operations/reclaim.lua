#!lua flags=allow-oom
-- Returns what a lost engine holds in one queue to its lanes, all of it or the first few, and ends its session.
-- KEYS  1 session  2 tasks  3 running  4 deadlines  5 events  6 counters  7 beats  8 verdicts  9 lanes, then the wake key of
--       each of the queue's L lanes, then the five streams of each lane in claiming order
-- ARGV  1 engine id  2 the beat counter it was judged at; 'verdict': only if it is judged dead; '': its supervisor saw it die
--       3 lanes version that KEYS were made from  4 L  5 'engine_lost' or 'node_lost'  6 the named task or ''
--       7 1: charge the only one it holds  8 max deliveries  9 max losses  10 JSON body of the events  11 largest entry
--       12 how many tasks at most, 0 for all; then the field of each lane in the hash of lanes
-- Returns {'LANES'} when a lane was added since, {'ALIVE'} when it beat since; else
--       {'OK', recovered tasks, exhausted tasks, ids of entries whose payload is gone, 1 if it holds more}. Repeatable.
-- include: record, event, entry, unreadable, wake, marks, lane
local keys = {tasks = KEYS[2], running = KEYS[3], deadlines = KEYS[4], events = KEYS[5], counters = KEYS[6]}
local engine, judged, named = ARGV[1], ARGV[2], ARGV[6]
local lane_count, max_bytes = tonumber(ARGV[4]), tonumber(ARGV[11])
if (redis.call('HGET', KEYS[9], '#v') or '') ~= ARGV[3] then return {'LANES'} end
local beat = redis.call('HGET', KEYS[7], engine)
if beat and not string.find(beat, '^%d+$') then beat = nil end -- written by another program: it is no beat
if judged == 'verdict' then
  local verdict = redis.call('HGET', KEYS[8], engine)
  if not beat or not verdict or beat ~= string.match(verdict, '^(%d+):') then return {'ALIVE'} end
elseif judged ~= '' and beat and beat ~= judged then
  return {'ALIVE'}
end

-- what it holds, before anything is written: whether a task ran alone decides whether it is charged
local first_stream = 10 + lane_count
local held = {}
for index = first_stream, #KEYS do
  local start = '-'
  while start do
    local page = redis.pcall('XPENDING', KEYS[index], GROUP, start, '+', 100, engine)
    start = nil
    if not page.err then
      for _, pending in ipairs(page) do held[#held + 1] = {index, pending[1]} end
      if #page == 100 then start = '(' .. page[100][1] end
    end
  end
end

local now = now_ms()
local recovered, exhausted, lost = {}, {}, {}
local most, left = tonumber(ARGV[12]), 0
local alone = #held == 1 and ARGV[7] == '1' and named == ''
for _, h in ipairs(held) do
  if most > 0 and #recovered + #exhausted >= most then
    left = 1
    break
  end
  local index, id = h[1], h[2]
  local stream = KEYS[index]
  local entry = redis.call('XRANGE', stream, id, id)[1]
  local f, reason
  if entry then f, reason = parse_entry(entry[2], max_bytes) end
  local r = f and unpack_record(redis.call('HGET', keys.tasks, f.t))
  if f and not r then reason = NO_RECORD end
  if reason then
    dead_letter(keys, stream, id, entry[2], engine, now, reason)
  elseif not r or r.entry ~= id or r.stream ~= stream then
    -- a ghost or a copy; the reconciler rebuilds a task that has no entry
    redis.call('XACK', stream, GROUP, id)
    redis.call('XDEL', stream, id)
    lost[#lost + 1] = id
  else
    local engine_lost = ARGV[5] ~= 'node_lost'
    if engine_lost and (named == f.t or alone) then
      r.deliveries = r.deliveries + 1
    elseif not engine_lost or named == '' then
      -- lost with its node, or with other tasks of which one may have killed the engine: charged to the larger budget
      r.losses = r.losses + 1
    end
    r.seq = r.seq + 1
    if r.deliveries >= tonumber(ARGV[8]) or r.losses >= tonumber(ARGV[9]) then
      write_event(keys.events, 'task.exhausted', f.t, f.j, r, engine, now, '', ARGV[10])
      redis.call('XACK', stream, GROUP, id)
      redis.call('XDEL', stream, id)
      redis.call('ZREM', keys.running, f.t)
      redis.call('ZREM', keys.deadlines, f.t)
      redis.call('HSET', keys.tasks, f.t, tombstone(r))
      exhausted[#exhausted + 1] = f.t
    else
      local lane = math.floor((index - first_stream) / 5)
      -- A task whose engine died twice with several tasks runs alone next: so the guilty task is found, and the others
      -- complete. As recovered tasks they would be claimed together, and die together, for ever.
      -- A suspect that is lost with its node stays a suspect.
      local suspect = (index - first_stream) % 5 == 4 or r.deliveries >= SUSPECT_FROM
        or (engine_lost and r.losses >= SUSPECT_FROM)
      local tier = suspect and 4 or 0
      if not is_open(KEYS[first_stream + lane * 5 + tier]) then tier = (index - first_stream) % 5 end
      write_event(keys.events, 'task.recovered', f.t, f.j, r, engine, now, TIER_NAMES[tier + 1], ARGV[10])
      move_entry(keys, f.t, r, stream, KEYS[first_stream + lane * 5 + tier], KEYS[10 + lane], entry[2])
      mark(KEYS[9], ARGV[13 + lane], tier + 1)
      recovered[#recovered + 1] = f.t
    end
  end
end
if #recovered > 0 then redis.pcall('HINCRBY', keys.counters, 'recovered', #recovered) end
if #exhausted > 0 then redis.pcall('HINCRBY', keys.counters, 'exhausted', #exhausted) end
if #lost > 0 then redis.pcall('HINCRBY', keys.counters, 'ghosts', #lost) end
redis.call('DEL', KEYS[1])
if left == 1 then return {'OK', recovered, exhausted, lost, left} end -- its beat and its verdict stay for the rest
redis.call('HDEL', KEYS[7], engine)
redis.call('HDEL', KEYS[8], engine)
for index = first_stream, #KEYS do
  -- nothing is pending for it any more
  redis.pcall('XGROUP', 'DELCONSUMER', KEYS[index], GROUP, engine)
end
return {'OK', recovered, exhausted, lost, left}
