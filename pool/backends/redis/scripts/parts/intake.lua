-- New jobs. Arguments of one: id, queue, priority, body (the record from the priority on), extras (frames).
-- Extras: D delay, A run_at, E expires_in (>d each), L limit (parts/limits.lua), B batch (parts/batches.lua), I idempotency key, O owner, G digest, U unique key,
--         S and F: follow-ups on success and failure, as id, queue, priority, body, extras, each after its >I length.
local JOB_ARGS = 5
local seen_queue = {}
local check_batch -- parts/batches.lua, where a step includes it

local function number_frame(extras, tag) return extras[tag] and struct.unpack('>d', extras[tag]) end

-- Who answers for this job already: id, status name, payload differs; nil: nobody, it is new.
local function earlier(id, extras)
  if extras.I then
    local known = call('HGET', IDEM, extras.O .. '\0' .. extras.I)
    if known then
      local first = string.sub(known, 1, 16)
      local differs = string.sub(known, 18) ~= (extras.G or '')
      local record = read_record(call('HGET', JOBS, first))
      local status = record and status_name(first, state_of(first), record.queue)
      return first, status or NAMES[string.byte(known, 17)] or 'completed', differs
    end
  end
  local raw = call('HGET', JOBS, id)
  if raw then
    local record = read_record(raw)
    return id, record and status_name(id, state_of(id), record.queue) or 'failed', false
  end
  local holder = extras.U and call('HGET', UNIQUE, extras.U)
  if holder then
    local record, s = read_record(call('HGET', JOBS, holder)), state_of(holder)
    if record and (not s or s.status == WAITING or s.status == RUNNING) then
      return holder, status_name(holder, s, record.queue), false
    end
  end
  return nil
end

local function greet(queue)
  if seen_queue[queue] then return end
  seen_queue[queue] = true
  if not settings(queue).known then call('HSET', QUEUES, queue, '0:0') end
end

-- Write one new job; returns its status name.
local function store(id, queue, priority, body, raw_extras, extras, seq)
  local run_at = number_frame(extras, 'A') or 0
  local delay, expires = number_frame(extras, 'D'), number_frame(extras, 'E')
  if run_at == 0 and delay and delay > 0 then run_at = NOW + delay end
  local expires_at = expires and NOW + expires or 0
  local flags, times = raw_extras ~= '' and 2 or 0, ''
  if run_at > 0 or expires_at > 0 then
    flags, times = flags + 1, struct.pack('>dd', run_at, expires_at)
  end
  call('HSET', JOBS, id, struct.pack('>Bdd', flags, NOW, seq) .. times .. body)
  enlist(id, seq)
  greet(queue)
  if expires then call('ZADD', EXPIRY, expires_at, id) end
  if extras.U then call('HSET', UNIQUE, extras.U, id) end
  local key = limit_of(queue, extras)
  if key then declare(extras.L) end
  if extras.I then
    local name = extras.O .. '\0' .. extras.I
    call('HSET', IDEM, name, id .. string.char(WAITING) .. (extras.G or ''))
    call('ZADD', IDEM_AT, NOW_TEXT, name)
  end
  if run_at > NOW then
    stand_scheduled(id, queue, run_at)
    return 'scheduled'
  end
  stand(id, queue, priority, seq, key)
  return 'pending'
end

-- A sequence that is no number is begun anew, above any that was ever given.
local function next_sequence(n)
  local last = pcall_redis('HINCRBY', STATS, 'seq', n)
  if type(last) ~= 'table' then return last - n end
  call('HSET', STATS, 'seq', string.format('%d', math.floor(NOW) + n))
  return math.floor(NOW)
end

-- Children and follow-ups: never refused; one that somebody answers for already is left as it is.
local function admit(id, queue, priority, body, raw_extras)
  local extras = read_frames(raw_extras)
  if earlier(id, extras) then return end
  count('enqueued')
  store(id, queue, priority, body, raw_extras, extras, next_sequence(1) + 1)
end

local function parts_of(packed)
  local parts, pos, size = {}, 1
  for _ = 1, JOB_ARGS do
    size, pos = struct.unpack('>I', packed, pos)
    parts[#parts + 1] = string.sub(packed, pos, pos + size - 1)
    pos = pos + size
  end
  return parts
end

-- The arguments of a job that is packed to be enqueued later; nil when they cannot be read: such a one is dropped.
local function unpack_job(packed)
  local fine, parts = pcall(parts_of, packed)
  if fine and #parts[1] == 16 and tonumber(parts[3]) and read_record(string.rep('\0', 17) .. parts[4]) then return parts end
  return nil
end

local function admit_packed(packed)
  local parts = unpack_job(packed)
  if parts then admit(parts[1], parts[2], tonumber(parts[3]), parts[4], parts[5]) end
end

local function check_queue_of(packed)
  local parts = packed and unpack_job(packed)
  if parts then check_queue(parts[2]) end
end

-- The queues that the job's follow-ups would go to, looked at before the first write.
local function check_follow_ups(record)
  if record.extras == '' then return end
  local extras = read_frames(record.extras)
  check_queue_of(extras.S)
  check_queue_of(extras.F)
  if extras.B and check_batch then check_batch(extras.B) end
end
