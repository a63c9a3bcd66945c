-- Marks: for each lane, the hash of lanes has a mark per tier, 1 when undelivered entries may be in its stream. A script
-- that adds an entry sets the mark; a claim that empties the stream clears it. `tier` counts from 1.
local ONE = 49 -- the byte of '1'
local NO_MARKS = '00000'

local function is_marked(marks, tier) return marks and string.byte(marks, tier) == ONE end

-- `lanes` is the reply of HMGET: version, paused, then the marks of each lane
local function any_mark(lanes, count)
  for lane = 1, count do
    if lanes[2 + lane] and string.find(lanes[2 + lane], '1', 1, true) then return true end
  end
  return false
end

-- returns the marks as they are then; no write if nothing changes, or if the lane is gone
local function write_mark(lanes, lane, marks, tier, on)
  if not marks or #marks == 5 and (string.byte(marks, tier) == ONE) == on then return marks end
  if #marks ~= 5 then marks = NO_MARKS end
  marks = string.sub(marks, 1, tier - 1) .. (on and '1' or '0') .. string.sub(marks, tier + 1)
  redis.call('HSET', lanes, lane, marks)
  return marks
end

local function mark(lanes, lane, tier)
  write_mark(lanes, lane, redis.call('HGET', lanes, lane) or NO_MARKS, tier, true)
end
