#!lua flags=allow-oom
-- An engine got an entry whose JSON can't be read: out of the stream with it, raw, to the dead letters.
-- KEYS  1 session  2 tasks  3 running  4 deadlines  5 events  6 counters  7 stream
-- ARGV  1 fence  2 engine id  3 entry id  4 why (a JSON-safe sentence)
-- Returns 'FENCED', 'lost' or 'ok'. Repeatable: the second time it is no longer ours.
-- include: record, event, entry, owner
if redis.call('HGET', KEYS[1], 'f') ~= ARGV[1] then return 'FENCED' end
local keys = {tasks = KEYS[2], running = KEYS[3], deadlines = KEYS[4], events = KEYS[5], counters = KEYS[6]}
if not owns(KEYS[7], ARGV[3], ARGV[2]) then return 'lost' end
local entry = redis.call('XRANGE', KEYS[7], ARGV[3], ARGV[3])[1]
if not entry then return 'lost' end
bury(keys, KEYS[7], ARGV[3], entry[2], ARGV[2], now_ms(), ARGV[4])
return 'ok'
