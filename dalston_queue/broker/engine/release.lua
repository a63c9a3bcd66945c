#!lua flags=allow-oom
-- Releases tasks of an engine that drains or won't start them soon: uncounted, as the first of their queue (a suspect stays
-- a suspect).
-- KEYS  1 session  2 tasks  3 running  4 deadlines  5 events  6 counters  7 lanes, then the wake key of each of the
--       engine's L lanes, then the five streams of each lane in claiming order
-- ARGV  1 fence  2 engine id  3 L  4 JSON body of the event, then the field of each lane in the hash of lanes, then per
--       task: task, attempt, index of its stream in KEYS
-- Returns {'FENCED'}, or {'OK', answer per task: 'ok' or 'lost'}. Repeatable: what was released is no longer ours.
-- include: record, event, wake, marks, lane, owner
local keys = {tasks = KEYS[2], running = KEYS[3], deadlines = KEYS[4], events = KEYS[5], counters = KEYS[6]}
local me, lane_count = ARGV[2], tonumber(ARGV[3])
if redis.call('HGET', KEYS[1], 'f') ~= ARGV[1] then return {'FENCED'} end
local now = now_ms()
local first_stream = 8 + lane_count
local codes, released = {}, 0
for i = 5 + lane_count, #ARGV, 3 do
  local task, index = ARGV[i], tonumber(ARGV[i + 2])
  local stream = KEYS[index]
  local r = unpack_record(redis.call('HGET', keys.tasks, task))
  local entry
  if r and r.state == 'r' and r.owner == me and r.attempt == tonumber(ARGV[i + 1]) and r.stream == stream
    and owns(stream, r.entry, me) then
    entry = redis.call('XRANGE', stream, r.entry, r.entry)[1]
  end
  if entry then
    local lane, own = math.floor((index - first_stream) / 5), (index - first_stream) % 5
    local tier = (own == 4 or r.deliveries >= SUSPECT_FROM) and 4 or 0
    if not is_open(KEYS[first_stream + lane * 5 + tier]) then tier = own end
    r.seq = r.seq + 1
    write_event(keys.events, 'task.released', task, r.job, r, me, now, TIER_NAMES[tier + 1], ARGV[4])
    move_entry(keys, task, r, stream, KEYS[first_stream + lane * 5 + tier], KEYS[8 + lane], entry[2])
    mark(KEYS[7], ARGV[5 + lane], tier + 1)
    released = released + 1
    codes[#codes + 1] = 'ok'
  else
    codes[#codes + 1] = 'lost'
  end
end
if released > 0 then redis.pcall('HINCRBY', keys.counters, 'released', released) end
return {'OK', codes}
