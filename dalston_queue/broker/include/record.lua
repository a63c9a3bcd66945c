-- Records of tasks (broker/protocol/record.py has the same order of fields) and the server's clock.
-- A record is a line of tab-separated fields, so that the hot path compares its start and copies the rest as they are:
-- state, entry, stream, timeout, job, attempt, seq, deliveries, losses, and while it runs owner, claimed, renewed,
-- deadline, cancel, progress. In the line of a waiting task `seq` is the number that the event of its start will have, and
-- in a tombstone the number before that of its end: so no script of the hot path has to count. In a table it is always the
-- number of the last event.
local GROUP = 'engines'
local MAX_ENTRY_BYTES = 8388608 -- as in messages.py

-- nil for no record and for bytes that are no record: both mean that Redis doesn't know the task
local function unpack_record(raw)
  if not raw then return nil end
  local state, entry, stream, timeout, job, attempt, seq, deliveries, losses =
    string.match(raw, '^([wrs])\t([^\t]*)\t([^\t]*)\t(%d+)\t([^\t\n]*)\t(%d+)\t(%d+)\t(%d+)\t(%d+)')
  if not losses then return nil end
  local r = {state = state, entry = entry, stream = stream, timeout = timeout, job = job,
    attempt = attempt + 0, seq = seq + 0, deliveries = deliveries + 0, losses = losses + 0}
  if state == 'w' then r.seq = r.seq - 1 end
  if state == 's' then r.seq = r.seq + 1 end
  if state == 'r' then
    local owner, claimed, renewed, deadline, cancel, progress =
      string.match(raw, '^[^\t]*\t' .. string.rep('[^\t]*\t', 8) .. '([^\t]+)\t(%d+)\t(%d+)\t(%d+)\t([01])\t(.*)$')
    if not owner then return nil end
    r.owner, r.claimed, r.renewed, r.deadline = owner, claimed + 0, renewed + 0, deadline + 0
    r.cancel, r.progress = cancel + 0, progress
  end
  return r
end

local function integer(number) return string.format('%.0f', number) end

local function counts(r, seq)
  return integer(r.attempt) .. '\t' .. integer(seq) .. '\t' .. integer(r.deliveries) .. '\t' .. integer(r.losses)
end

local function tombstone(r)
  return 's\t\t\t0\t\t' .. counts(r, r.seq - 1)
end

local function waiting(r, stream, entry)
  return 'w\t' .. entry .. '\t' .. stream .. '\t' .. r.timeout .. '\t' .. r.job .. '\t'
    .. counts(r, r.seq + 1)
end

local function running(r)
  return 'r\t' .. r.entry .. '\t' .. r.stream .. '\t' .. r.timeout .. '\t' .. r.job .. '\t'
    .. counts(r, r.seq) .. '\t' .. r.owner .. '\t' .. integer(r.claimed) .. '\t' .. integer(r.renewed) .. '\t' .. integer(r.deadline) .. '\t'
    .. r.cancel .. '\t' .. r.progress
end

-- For settle_and_claim, which compares and copies the bytes of records: a table per record takes longer than its commands.
-- `start` is the record of a running task from behind its state up to and with the tab after its owner.
local function is_running_as(raw, start)
  return raw and string.byte(raw) == 114 --[[ r ]] and string.find(raw, start, 2, true) == 2
end

local function tombstone_of(start) return 's' .. start end

-- timeout, and 'job attempt seq deliveries losses' of the record of this waiting entry; nil for any other record.
-- Each number is checked: the line of an event that other tasks share is made of them.
local function waiting_as(raw, entry, stream)
  local start = 'w\t' .. entry .. '\t' .. stream .. '\t'
  if not raw or string.find(raw, start, 1, true) ~= 1 then return nil end
  local timeout, counts = string.match(raw, '^(%d+)\t([^\t\n]*\t%d+\t%d+\t%d+\t%d+)$', #start + 1)
  return timeout, counts
end

-- the record of a waiting task, claimed
local function started(raw, owner, now, deadline)
  return 'r' .. string.sub(raw, 2) .. '\t' .. owner .. '\t' .. now .. '\t' .. now .. '\t' .. deadline .. '\t0\t'
end

local function now_ms()
  local t = redis.call('TIME')
  return t[1] * 1000 + math.floor(t[2] / 1000)
end
