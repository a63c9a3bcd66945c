-- Moves a beat counter. One that is no number was written by another program: the counter starts anew, from the clock,
-- because a counter that an engine was judged at must not come back.
local function count_beat(key, field)
  local beat = redis.pcall('HINCRBY', key, field, 1)
  if type(beat) == 'number' then return beat end
  beat = now_ms()
  redis.call('HSET', key, field, integer(beat))
  return beat
end
