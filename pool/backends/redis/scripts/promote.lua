-- Move due jobs to pending, cancel expired ones, and ring; also for classes that sleep beside pending work.
-- KEYS 1-14 as in parts/keys.lua
-- ARGV 1 limit
-- Returns {moved, next due ("" = none), 1 if jobs wait that may start}.
--! include keys checks ids records places limits intake batches endings choosing
check_all()
keeper_sleeps = false -- it is the keeper who asks
call('ZCARD', OPENS)
call('ZREM', HEADS, '')
local limit = tonumber(ARGV[1])
local moved = promote(limit)

for _, id in ipairs(call('ZRANGEBYSCORE', EXPIRY, '-inf', NOW_TEXT, 'LIMIT', 0, limit)) do
  local record, s = read_record(call('HGET', JOBS, id)), state_of(id)
  local is_waiting = record and (not s or s.status == WAITING)
  if not record or not is_broken(record.queue) then
    call('ZREM', EXPIRY, id) -- a running one comes back here when it is put back
    if is_waiting and is_expired(record) then end_waiting(id, record.queue, s, record, CANCELLED, 'expired') end
  end
end

-- Whether anything waits.
local function ring_sleepers()
  local ready = call('ZRANGE', HEADS, 0, 20)
  if #ready == 0 then return 0 end
  for _, class in ipairs(call('ZRANGE', BELLS, '0', '-1')) do
    for _, queue in ipairs(ready) do
      local low, high, mode, names = string.match(class, '^(%d+):(%d+):(.):(.*)$')
      local listed = low and string.find(names, '\31' .. queue .. '\31', 1, true) ~= nil
      local is_served = low and listed == (mode == '=') and not is_broken(queue)
      if is_served and call('ZCOUNT', ROOT .. 'pending:' .. queue, '-inf', '(' .. HELD_FROM) > 0 then ring(class) end
    end
  end
  return 1
end

-- The bound of the first queue may be too low; the true one is wanted for the keeper's sleep.
local function next_due()
  for _ = 1, 100 do
    local first = call('ZRANGE', DUES, '0', '0', 'WITHSCORES')
    if not first[1] then return '' end
    if is_broken(first[1]) then return first[2] end
    local top = call('ZRANGE', ROOT .. 'scheduled:' .. first[1], '0', '0', 'WITHSCORES')
    if top[2] == first[2] then return top[2] end
    if top[2] then call('ZADD', DUES, top[2], first[1]) else call('ZREM', DUES, first[1]) end
  end
  return call('ZRANGE', DUES, '0', '0', 'WITHSCORES')[2] or ''
end

local function first_opening()
  return call('ZRANGE', OPENS, '0', '0', 'WITHSCORES')[2] or ''
end

for _, key in ipairs(call('ZRANGEBYSCORE', OPENS, '-inf', NOW_TEXT, 'LIMIT', 0, limit)) do
  if not is_limit_broken('', key) then freed[key] = true end
end
announce()
local waits = ring_sleepers()
local due, opening = next_due(), first_opening()
if due == '' or (opening ~= '' and tonumber(opening) < tonumber(due)) then due = opening end
return {moved, due, waits}
