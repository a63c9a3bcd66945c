#!lua flags=allow-oom
-- Returns one running task from its owner to its queue, uncounted: an operator wants it to run elsewhere. The next beat
-- of the owner reports it as lost. A suspect stays a suspect.
-- KEYS  1 tasks  2 running  3 deadlines  4 events  5 counters  6 the stream that its record names  7 the lane's recovered
--       stream  8 its suspect stream  9 its wake key  10 lanes
-- ARGV  1 task  2 attempt  3 the entry that was seen, '' for any  4 JSON body of the event  5 field of the lane in the hash
--       of lanes
-- Returns {'returned'}, {'waiting'} when no engine has it, {'changed'} when another engine has it by now, {'absent'}, or
--       {'elsewhere', stream} when KEYS[6] is not where it is. Repeatable: then it waits.
-- include: record, event, wake, marks, lane
local keys = {tasks = KEYS[1], running = KEYS[2], deadlines = KEYS[3], events = KEYS[4], counters = KEYS[5]}
local task = ARGV[1]
local r = unpack_record(redis.call('HGET', keys.tasks, task))
if not r or r.state == 's' or r.attempt ~= tonumber(ARGV[2]) then return {'absent'} end
if r.state == 'w' then return {'waiting'} end
if ARGV[3] ~= '' and r.entry ~= ARGV[3] then return {'changed'} end
if r.stream ~= KEYS[6] then return {'elsewhere', r.stream} end
local entry = redis.call('XRANGE', KEYS[6], r.entry, r.entry)[1]
if not entry then return {'absent'} end -- a ghost: the reconciler rebuilds it
local suspect = KEYS[6] == KEYS[8] or r.deliveries >= SUSPECT_FROM
local engine = r.owner
r.seq = r.seq + 1
write_event(keys.events, 'task.released', task, r.job, r, engine, now_ms(), TIER_NAMES[suspect and 5 or 1], ARGV[4])
move_entry(keys, task, r, KEYS[6], KEYS[suspect and 8 or 7], KEYS[9], entry[2])
mark(KEYS[10], ARGV[5], suspect and 5 or 1)
redis.pcall('HINCRBY', keys.counters, 'released', 1)
return {'returned'}
