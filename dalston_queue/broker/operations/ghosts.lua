#!lua flags=allow-oom
-- Acknowledges pending entries whose payload is gone, in a queue where a stream's length is below its pending count.
-- KEYS  1 stream
-- ARGV  1 id to start after ('-' for the first)  2 how many pending entries to check
-- Returns {id to go on after or '', ids acknowledged}. Repeatable.
-- include: record
local start = ARGV[1] == '-' and '-' or '(' .. ARGV[1]
local page = redis.pcall('XPENDING', KEYS[1], GROUP, start, '+', ARGV[2])
if page.err or #page == 0 then return {'', {}} end
local ghosts = {}
for _, pending in ipairs(page) do
  local id = pending[1]
  if #redis.call('XRANGE', KEYS[1], id, id) == 0 then
    redis.call('XACK', KEYS[1], GROUP, id)
    ghosts[#ghosts + 1] = id
  end
end
return {#page == tonumber(ARGV[2]) and page[#page][1] or '', ghosts}
