#!lua flags=allow-oom
-- Dead-letters an entry that its engine can't read: out of the stream, with its raw fields in the event.
-- KEYS  1 session  2 tasks  3 running  4 deadlines  5 events  6 counters  7 stream
-- ARGV  1 fence  2 engine id  3 entry id  4 why (a JSON-safe sentence), '' to find out  5 largest entry in bytes
-- Returns {'FENCED'}, {'lost'} or {'ok', why}. Repeatable: the second time it is no longer ours.
-- include: record, event, entry, unreadable, owner
if redis.call('HGET', KEYS[1], 'f') ~= ARGV[1] then return {'FENCED'} end
local keys = {tasks = KEYS[2], running = KEYS[3], deadlines = KEYS[4], events = KEYS[5], counters = KEYS[6]}
if not owns(KEYS[7], ARGV[3], ARGV[2]) then return {'lost'} end
local entry = redis.call('XRANGE', KEYS[7], ARGV[3], ARGV[3])[1]
if not entry then return {'lost'} end
local why = ARGV[4]
if why == '' then
  local f, reason = parse_entry(entry[2], tonumber(ARGV[5]))
  if reason then
    why = reason
  elseif unpack_record(redis.call('HGET', keys.tasks, f.t)) then
    why = 'the fields of the entry or of its record are in the wrong order'
  else
    why = NO_RECORD
  end
end
dead_letter(keys, KEYS[7], ARGV[3], entry[2], ARGV[2], now_ms(), why)
return {'ok', why}
