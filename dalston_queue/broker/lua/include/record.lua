-- Records of tasks (broker/record.py has the same order of fields) and the server's clock.
local ATTEMPT, SEQ, STATE, DELIVERIES, LOSSES, STREAM, ENTRY, AGED = 1, 2, 3, 4, 5, 6, 7, 8
local OWNER, JOB, CLAIMED, RENEWED, DEADLINE, CANCEL, PROGRESS = 9, 10, 11, 12, 13, 14, 15
local GROUP = 'engines'
local TIER_NAMES = {'recovered', 'high', 'medium', 'low', 'suspect'}
local SUSPECT_FROM = 2 -- deliveries
local MAX_ENTRY_BYTES = 8388608 -- as in messages.py

-- nil for no record and for bytes that are no record: both mean that Redis doesn't know the task
local function unpack_record(raw)
  local ok, r = pcall(cmsgpack.unpack, raw)
  if not ok or type(r) ~= 'table' or type(r[LOSSES]) ~= 'number' or type(r[SEQ]) ~= 'number' then return nil end
  local state = r[STATE]
  if state == 's' or (type(r[ENTRY]) == 'string' and (state == 'w' or (state == 'r' and type(r[JOB]) == 'string'))) then
    return r
  end
  return nil
end

local function tombstone(r)
  return cmsgpack.pack({r[ATTEMPT], r[SEQ], 's', r[DELIVERIES], r[LOSSES]})
end

local function waiting(r, stream, entry, aged)
  return cmsgpack.pack({r[ATTEMPT], r[SEQ], 'w', r[DELIVERIES], r[LOSSES], stream, entry, aged})
end

local function now_ms()
  local t = redis.call('TIME')
  return t[1] * 1000 + math.floor(t[2] / 1000)
end
