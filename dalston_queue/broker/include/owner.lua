-- Is this entry pending for this engine? The truth is the PEL, not the record. A lost stream or group says no.
local function owns(stream, id, engine)
  local found = redis.pcall('XPENDING', stream, GROUP, id, id, 1, engine)
  return not found.err and #found == 1
end
