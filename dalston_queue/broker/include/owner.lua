-- Is this entry pending for this engine? The truth is the PEL, not the record. A lost stream or group says no.
local function owns(stream, id, engine)
  local found = redis.pcall('XPENDING', stream, GROUP, id, id, 1, engine)
  return not found.err and #found == 1
end

-- The entries of a stream that are pending for an engine, as a set: one command for many. Not for a single one, and not
-- beyond the first 512: the caller asks for those by owns().
local function pending_of(stream, engine, count)
  local found, mine = count > 1 and redis.pcall('XPENDING', stream, GROUP, '-', '+', 512, engine) or {}, {}
  for i = 1, found.err and 0 or #found do mine[found[i][1]] = true end
  return mine
end
