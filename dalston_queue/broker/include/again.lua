-- The claim of an entry that this engine owns already; nil if it does not own it.
local function claim_again(keys, stream, id, engine, max_bytes)
  if not owns(stream, id, engine) then return nil end
  local entry = redis.call('XRANGE', stream, id, id)[1]
  if not entry then return nil end
  local f = parse_entry(entry[2], max_bytes)
  local r = f and unpack_record(redis.call('HGET', keys.tasks, f.t))
  if not r or r.state ~= 'r' or r.owner ~= engine or r.entry ~= id or r.stream ~= stream then return nil end
  r.progress = ''
  return f.t .. '\n' .. running(r) .. '\n' .. f.h .. '\n' .. f.m
end
