-- Writing an event about a task; the fields are always the same, so that the stream packs them well.
local function write_event(events, kind, task, job, r, engine, now, tier, body)
  redis.call('XADD', events, '*', 'k', kind, 't', task, 'j', job, 'a', r[ATTEMPT], 's', r[SEQ], 'd', r[DELIVERIES],
    'l', r[LOSSES], 'e', engine, 'at', now, 'p', tier, 'm', body)
end
