-- Wake-up tokens: one BLPOP of an idle engine takes one. Capped, since they are only a hint.
local WAKE_CAP = 128

local function wake(key, count)
  local room = WAKE_CAP - redis.call('LLEN', key)
  if count > room then count = room end
  if count == 1 then
    redis.call('RPUSH', key, 1)
  elseif count > 1 then
    local tokens = {}
    for i = 1, count do tokens[i] = 1 end
    redis.call('RPUSH', key, unpack(tokens))
  end
end
