-- How a job leaves its holder or its queue: over, back to its place, or later.

-- What extras owe at the end: the unique key is freed, the idempotency record learns the final state, follow-ups start.
local function pay_extras(id, s, record, before)
  local extras = read_frames(record.extras)
  local key = limit_of(record.queue, extras)
  if key then leave_limit(id, record.queue, key) end
  if extras.B then member_moved(extras.B, before, s.status) end
  if extras.U and call('HGET', UNIQUE, extras.U) == id then call('HDEL', UNIQUE, extras.U) end
  if extras.I then
    local name = extras.O .. '\0' .. extras.I
    local known = call('HGET', IDEM, name)
    if known and string.sub(known, 1, 16) == id then
      call('HSET', IDEM, name, id .. string.char(s.status) .. string.sub(known, 18))
    end
  end
  if extras.S and s.status == COMPLETED then admit_packed(extras.S) end
  if extras.F and s.status == FAILED then admit_packed(extras.F) end
end

-- The job is over: `s` gets its last status and is stored; `why` is the reason (nil for completed).
local function finish(id, s, status, why, record)
  local before = s.status
  s.status, s.finished, s.due = status, NOW, 0
  if why then s.tail = merge_frames(s.tail, frame('w', why)) end
  if status == COMPLETED then
    call('RPUSH', ROOT .. 'completed:' .. s.queue, id)
  else
    call('ZADD', ROOT .. NAMES[status] .. ':' .. s.queue, NOW_TEXT, id)
  end
  count(NAMES[status])
  if has(s.flags, F_CANCEL) then s.flags = s.flags - F_CANCEL end
  save_state(id, s)
  if record then
    if record.expires_at > 0 then call('ZREM', EXPIRY, id) end
    if record.extras ~= '' then pay_extras(id, s, record, before) end
  end
end

-- Back to waiting: in its old place at once, or due after `delay` seconds.
local function put_back(id, s, record, delay)
  s.status, s.claimed = WAITING, 0
  local key = limit_of_record(record)
  if key then leave_limit(id, s.queue, key) end
  if record.expires_at > 0 then call('ZADD', EXPIRY, record.expires_at, id) end
  if delay > 0 then
    s.due = NOW + delay
    stand_scheduled(id, s.queue, s.due)
  else
    s.due = 0
    stand(id, s.queue, record.priority, record.seq, key)
  end
  save_state(id, s)
end

-- A waiting job ends without a start: cancelled, expired, or set aside.
local function end_waiting(id, queue, s, record, status, why)
  leave_place(id, queue)
  finish(id, s or fresh_state(queue), status, why, record)
end
