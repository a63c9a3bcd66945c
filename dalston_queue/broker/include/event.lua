-- Writing events about tasks. The head of an event is one line of tab-separated fields, because each field of a stream
-- entry costs the server more than the whole line; messages.py reads it in the same order.
local function event_head(kind, task, job, r, engine, now, tier)
  return kind .. '\t' .. task .. '\t' .. job .. '\t' .. r[ATTEMPT] .. '\t' .. r[SEQ] .. '\t' .. r[DELIVERIES] .. '\t'
    .. r[LOSSES] .. '\t' .. engine .. '\t' .. now .. '\t' .. tier
end

local function write_event(events, kind, task, job, r, engine, now, tier, body)
  redis.call('XADD', events, '*', 'h', event_head(kind, task, job, r, engine, now, tier), 'm', body)
end
