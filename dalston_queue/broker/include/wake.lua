-- Wake-up tokens: one BLPOP of an idle engine takes one. Capped, since they are only a hint.
local WAKE_CAP = 128

local function wake(key, count)
  local tokens = {}
  for i = 1, math.min(count, WAKE_CAP) do tokens[i] = 1 end
  local length = redis.pcall('RPUSH', key, unpack(tokens)) -- an error: another type; the next claim that finds nothing deletes it
  if type(length) == 'number' and length > WAKE_CAP then redis.call('LTRIM', key, 0, WAKE_CAP - 1) end
end
