-- Writing events about tasks. The head of an event is one line of tab-separated fields, because each field of a stream
-- entry costs the server more than the whole line; messages.py reads it in the same order.
-- `counts` is job, attempt, seq, deliveries and losses, in the bytes that a record has them in. Without `now` the id of
-- the event's entry has its time.
local function event_line(kind, task, counts, engine, now, tier)
  return kind .. '\t' .. task .. '\t' .. counts .. '\t' .. engine .. '\t' .. now .. '\t' .. tier
end

local function event_head(kind, task, job, r, engine, now, tier)
  return event_line(kind, task, job .. '\t' .. counts(r, r.seq), engine, now, tier)
end

-- Comes before the other writes about its task: a key of another type raises here, and then nothing has changed.
local function write_event(events, kind, task, job, r, engine, now, tier, body)
  redis.call('XADD', events, '*', 'h', event_head(kind, task, job, r, engine, now, tier), 'm', body)
end
