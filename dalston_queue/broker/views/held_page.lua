#!lua flags=no-writes,allow-stale
-- A page of one stream's pending entries in the order of their ids, of all engines or of one. Never walks the PEL: it
-- begins at an id, and each engine has its own list. Reads only.
-- KEYS  1 stream  2 tasks
-- ARGV  1 entry id after which to begin, '' for the first  2 how many  3 engine id, '' for all
-- Returns {now, per entry {id, task, record}}; a ghost (its payload is gone) and a copy are left out
-- include: record
local asked = {'XPENDING', KEYS[1], GROUP, ARGV[1] == '' and '-' or '(' .. ARGV[1], '+', ARGV[2]}
if ARGV[3] ~= '' then asked[7] = ARGV[3] end
local page = redis.pcall(unpack(asked))
local found = {}
for _, pending in ipairs(page.err and {} or page) do
  local entry = redis.call('XRANGE', KEYS[1], pending[1], pending[1])[1]
  local task
  for k = 1, entry and #entry[2] or 0, 2 do
    if entry[2][k] == 't' then task = entry[2][k + 1] end
  end
  local raw = task and redis.call('HGET', KEYS[2], task)
  local r = raw and unpack_record(raw)
  if r and r.state == 'r' and r.entry == pending[1] then found[#found + 1] = {pending[1], task, raw} end
end
return {now_ms(), found}
