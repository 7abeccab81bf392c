-- What points at a job by its extras: its limit, its batch, its keys.
local function untie(id, queue, record, s)
  local extras = read_frames(record.extras)
  local key = limit_of(queue, extras)
  if key then leave_limit(id, queue, key) end
  if extras.B then
    if not s or s.status == WAITING then member_moved(extras.B, WAITING, CANCELLED) end
    pcall_redis('ZREM', ROOT .. 'members:' .. extras.B, id)
  end
  if extras.U and call('HGET', UNIQUE, extras.U) == id then call('HDEL', UNIQUE, extras.U) end
  if extras.I then
    local name = extras.O .. '\0' .. extras.I
    local known = call('HGET', IDEM, name)
    if known and string.sub(known, 1, 16) == id and string.byte(known, 17) == WAITING then
      call('HSET', IDEM, name, id .. string.char(s and NAMES[s.status] and s.status or CANCELLED) .. string.sub(known, 18))
    end
  end
end

-- Remove a job and everything that points at it.
local function remove(id, set, queue)
  local raw = call('HGET', JOBS, id)
  local record, s = read_record(raw), state_of(id)
  if set == 'completed:' then call('LREM', ROOT .. set .. queue, 1, id) else call('ZREM', ROOT .. set .. queue, id) end
  if set == 'pending:' or set == 'scheduled:' then leave_place(id, queue) end
  if record and record.extras ~= '' then untie(id, queue, record, s) end
  call('HDEL', JOBS, id)
  call('HDEL', STATE, id)
  call('HDEL', PAST, id)
  delist({id})
  call('ZREM', EXPIRY, id)
end
