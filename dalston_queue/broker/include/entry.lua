-- Reading a work entry. The stream may hold anything: an XADD of another program, a newer version, bytes of any size.
-- Our own has t task, h a line of version, job, attempt, enqueued_at and timeout, m the rest as JSON, in this order.
local VERSION = '1'
local NO_RECORD = 'the entry has no readable record'

-- the entry's values, or nil and why it can't be read. Unknown fields are ignored.
local function parse_entry(fields, max_bytes)
  local f = {}
  local bytes = 0
  for i = 1, #fields, 2 do
    f[fields[i]] = fields[i + 1]
    bytes = bytes + #fields[i + 1]
  end
  if bytes > max_bytes then return nil, 'the entry is larger than ' .. max_bytes .. ' bytes' end
  if not f.h then return nil, 'the entry has no version' end
  local version, job, attempt, since, timeout = string.match(f.h, '^([^\t]*)\t?([^\t]*)\t?([^\t]*)\t?([^\t]*)\t?([^\t]*)')
  if version ~= VERSION then return nil, 'the entry has an unknown version' end
  if not (f.t and f.m) or timeout == '' then return nil, 'the entry lacks a field' end
  f.j, f.a, f.e, f.o = job, tonumber(attempt), tonumber(since), tonumber(timeout)
  -- an id with a tab or a line break would end its field in every line that names it
  local id_fits = #f.t > 0 and #f.t <= 200 and not string.find(f.t, '[\t\n]')
  if not (f.a and f.e and f.o and id_fits) then return nil, 'a field of the entry has the wrong type' end
  return f
end

-- whether these are fields of our version in our order, and an id that lines can name; the client reads the rest
local function is_entry(fields)
  if not (fields[1] == 't' and fields[3] == 'h' and fields[5] == 'm') then return false end
  local bytes, length = 0, #fields[2]
  for i = 2, #fields, 2 do bytes = bytes + #fields[i] end
  return bytes <= MAX_ENTRY_BYTES and length > 0 and length <= 200 and string.sub(fields[4], 1, 2) == VERSION .. '\t'
    and not string.find(fields[2], '\t', 1, true) and not string.find(fields[2], '\n', 1, true)
end
