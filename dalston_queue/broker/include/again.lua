-- The claim of an entry that this engine owns already; nil if it does not own it.
local function claim_again(keys, stream, id, engine, max_bytes)
  if not owns(stream, id, engine) then return nil end
  local entry = redis.call('XRANGE', stream, id, id)[1]
  if not entry then return nil end
  local f = parse_entry(entry[2], max_bytes)
  local r = f and unpack_record(redis.call('HGET', keys.tasks, f.t))
  if not r or r[STATE] ~= 'r' or r[OWNER] ~= engine or r[ENTRY] ~= id or r[STREAM] ~= stream then return nil end
  r[PROGRESS] = ''
  return f.t .. '\n' .. running(r) .. '\n' .. f.h .. '\n' .. f.m
end
