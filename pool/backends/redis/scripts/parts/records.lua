-- Records. A job's record is fixed at enqueue; what changes is its state, which a job that was never claimed lacks.
-- record  >Bdd flags, created, sequence [>dd run_at, expires_at: flag 1] >BHHHHH priority, max_retries, max_kills,
--         lengths of type, queue, owner [>I length of extras: flag 2] type queue owner extras payload
-- state   >BBIHHHHddddd status, flags, claim, retries, kills, losses, misfits, due, claimed, started, finished, updated
--         >H lane >H queue frames
-- frames  (>c1I tag, length, bytes)*    past  (>I length, >HddB number, started, ended, outcome, frames)*
local WAITING, RUNNING, COMPLETED, FAILED, CANCELLED = 119, 114, 99, 102, 120 -- w r c f x
local F_CANCEL, F_ALONE, F_EXTRAS, F_PLAIN = 1, 2, 4, 8 -- plain: the completing attempt is told by the state itself
local NAMES = {[RUNNING] = 'running', [COMPLETED] = 'completed', [FAILED] = 'failed', [CANCELLED] = 'cancelled'}

local function has(flags, bit) return flags % (bit * 2) >= bit end

local function parse_record(raw)
  local r, type_n, queue_n, owner_n, pos, extras_n = {expires_at = 0, run_at = 0, extras = ''}
  r.flags, r.created, r.seq, pos = struct.unpack('>Bdd', raw)
  if r.flags > 3 then return nil end
  if r.flags % 2 == 1 then r.run_at, r.expires_at, pos = struct.unpack('>dd', raw, pos) end
  r.priority, r.max_retries, r.max_kills, type_n, queue_n, owner_n, pos = struct.unpack('>BHHHHH', raw, pos)
  r.is_local = owner_n == 65535 -- the usual owner, "local", takes no room
  if r.is_local then owner_n = 0 end
  if r.flags >= 2 then extras_n, pos = struct.unpack('>I', raw, pos) else extras_n = 0 end
  if r.priority > 100 or pos + type_n + queue_n + owner_n + extras_n > #raw + 1 then return nil end
  r.type_at, r.type_n = pos, type_n
  r.queue = string.sub(raw, pos + type_n, pos + type_n + queue_n - 1)
  r.owner_at, r.owner_n = pos + type_n + queue_n, owner_n
  local extras_at = r.owner_at + owner_n
  if extras_n > 0 then r.extras = string.sub(raw, extras_at, extras_at + extras_n - 1) end
  r.payload_at = extras_at + extras_n
  return r
end

-- The record, or nil when there is none or it cannot be read.
local function read_record(raw)
  if not raw then return nil end
  local fine, r = pcall(parse_record, raw)
  return fine and r or nil
end

local function fill_frames(raw, found)
  local pos, tag, value = 1
  while pos <= #raw do
    tag, value, pos = struct.unpack('>c1Ic0', raw, pos)
    found[tag] = value
  end
end

-- Of broken frames those before the break.
local function read_frames(raw)
  local found = {}
  pcall(fill_frames, raw, found)
  return found
end

local function write_frames(found)
  local parts = {}
  for tag, value in pairs(found) do parts[#parts + 1] = struct.pack('>c1I', tag, #value) .. value end
  return table.concat(parts)
end

local CLEARS = 'e\0\0\0\0x\0\0\0\0' -- the frames of no error

-- `tail` with the frames of `changes` (raw frames) in place of its own.
local function merge_frames(tail, changes)
  if changes == '' or tail == '' and changes == CLEARS then return tail end
  if tail == '' then return changes end
  local merged = read_frames(tail)
  for tag, value in pairs(read_frames(changes)) do merged[tag] = value end
  return write_frames(merged)
end

local function frame(tag, value) return struct.pack('>c1I', tag, #value) .. value end

local function read_state(raw)
  local s, pos, lane_n, queue_n = {}
  s.status, s.flags, s.claim, s.retries, s.kills, s.losses, s.misfits, s.due, s.claimed, s.started, s.finished,
    s.updated, lane_n, pos = struct.unpack('>BBIHHHHdddddH', raw)
  s.lane = string.sub(raw, pos, pos + lane_n - 1)
  queue_n, pos = struct.unpack('>H', raw, pos + lane_n)
  s.queue = string.sub(raw, pos, pos + queue_n - 1)
  s.tail = string.sub(raw, pos + queue_n)
  return s
end

local function fresh_state(queue)
  return {status = WAITING, flags = 0, claim = 0, retries = 0, kills = 0, losses = 0, misfits = 0, due = 0,
    claimed = 0, started = 0, finished = 0, updated = 0, lane = '', queue = queue, tail = ''}
end

local function pack_state(s)
  return struct.pack('>BBIHHHHdddddH', s.status, s.flags, s.claim, math.min(s.retries, 65535),
    math.min(s.kills, 65535), math.min(s.losses, 65535), math.min(s.misfits, 65535), s.due, s.claimed, s.started,
    s.finished, s.updated, #s.lane) .. s.lane .. struct.pack('>H', #s.queue) .. s.queue .. s.tail
end

local function save_state(id, s)
  s.updated = NOW
  local raw = pack_state(s)
  call('HSET', STATE, id, raw)
  return raw
end

-- The state; nil for none, and nil, true for one that cannot be read.
local function state_of(id)
  local raw = call('HGET', STATE, id)
  if not raw then return nil end
  local fine, s = pcall(read_state, raw)
  if fine and (s.status == WAITING or NAMES[s.status]) then return s end
  return nil, true
end

-- The name of a job's status; a waiting one is scheduled as long as it stands in its queue's schedule.
local function status_name(id, s, queue)
  if s and s.status ~= WAITING then return NAMES[s.status] end
  return call('ZSCORE', ROOT .. 'scheduled:' .. queue, id) and 'scheduled' or 'pending'
end

-- Lane entries in the pool's hash: >dBIdI last request, settled (0 none, 1 yes, 2 lost), claim, lease, sign; held id.
-- sign: renewals of a holder with a lease of its own; for others the pool's beat at the time of the claim.
-- An entry that cannot be read is that of a lane that never called (`is_broken`).
local function read_lane(raw)
  if #raw < 25 then return {request = 0, settled = 0, claim = 0, lease = 0, sign = 0, id = '', is_broken = true} end
  local l, pos = {}
  l.request, l.settled, l.claim, l.lease, l.sign, pos = struct.unpack('>dBIdI', raw)
  l.id = string.sub(raw, pos)
  return l
end

local function pack_lane(l)
  return struct.pack('>dBIdI', l.request, l.settled, l.claim, l.lease, l.sign) .. l.id
end

-- Append to the history; the newest ten stay.
local function append_attempt(id, body)
  local old = call('HGET', PAST, id) or ''
  local starts, pos = {}, 1
  while pos <= #old do
    starts[#starts + 1] = pos
    local size, after = struct.unpack('>I', old, pos)
    pos = after + size
  end
  if #starts >= 10 then old = string.sub(old, starts[#starts - 8]) end
  call('HSET', PAST, id, old .. struct.pack('>I', #body) .. body)
end

-- Append an attempt. `tail`: frames of cause and output.
local function remember(id, s, outcome, tail)
  append_attempt(id, struct.pack('>HddB', math.min(s.retries + 1, 65535), s.started, NOW, string.byte(outcome))
    .. frame('l', s.lane) .. tail)
end

-- Counters are kept per hour (UTC, hours since 1970); `forget` folds old hours into the totals.
local HOUR = string.format('%d', math.floor(NOW / 3600))
local function count(what, n)
  local field = 'h:' .. HOUR .. ':' .. what
  local counted = pcall_redis('HINCRBY', STATS, field, n or '1')
  if type(counted) == 'table' then call('HSET', STATS, field, n or '1') end -- it was no number: counted anew
end
