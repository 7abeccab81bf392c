-- Promotion and the choice of the next job.
local PROMOTE_IN_CLAIM, MAX_SKIPS = 128, 100

local function is_expired(record) return record.expires_at > 0 and NOW >= record.expires_at end

-- A job whose record (nil) or state cannot be read ends as a dead letter, out of every place.
local function set_aside(id, queue, record)
  end_waiting(id, queue, state_of(id), record, FAILED, 'invalid_record')
end

local function reset_bound(index, queue, set)
  local first = call('ZRANGE', ROOT .. set .. queue, '0', '0', 'WITHSCORES')
  if first[1] then call('ZADD', index, first[2], queue) else call('ZREM', index, queue) end
end

-- A queue with a key of the wrong type is left alone: claims and promotion serve the others.
local fitness = {}
local function is_broken(queue)
  if fitness[queue] == nil then
    fitness[queue] = false
    for _, set in ipairs(SETS) do
      if not pcall(count_in, set, queue) then fitness[queue] = true end
    end
  end
  return fitness[queue]
end

local function promote_queue(queue, limit)
  local due = pcall_redis('ZRANGEBYSCORE', ROOT .. 'scheduled:' .. queue, '-inf', NOW, 'WITHSCORES', 'LIMIT', 0, limit)
  if due.err or is_broken(queue) then return 0 end
  for at = 1, #due, 2 do
    local id = due[at]
    local record, s, is_spoilt = read_record(call('HGET', JOBS, id)), state_of(id)
    if not record or is_spoilt then
      set_aside(id, queue, record)
    elseif is_expired(record) then
      end_waiting(id, queue, s, record, CANCELLED, 'expired')
    else
      call('ZREM', ROOT .. 'scheduled:' .. queue, id)
      call('ZADD', ROOT .. 'late:' .. queue, due[at + 1], id)
      stand(id, queue, record.priority, record.seq, limit_of_record(record))
    end
  end
  reset_bound(DUES, queue, 'scheduled:')
  return #due / 2
end

-- Move up to `limit` due jobs to pending; returns how many.
local function promote(limit)
  local moved = 0
  for _, queue in ipairs(call('ZRANGEBYSCORE', DUES, '-inf', NOW_TEXT, 'LIMIT', 0, 100)) do
    if moved < limit then moved = moved + promote_queue(queue, limit - moved) end
  end
  return moved
end

-- The first job of a queue with a rank in the wanted range: id and rank; nil for none, and true for a broken key.
local function first_in(queue, want)
  local found
  if want.whole then
    found = pcall_redis('ZRANGE', ROOT .. 'pending:' .. queue, 0, 0, 'WITHSCORES')
  else
    found = pcall_redis('ZRANGEBYSCORE', ROOT .. 'pending:' .. queue, want.low, want.high, 'WITHSCORES', 'LIMIT', '0', '1')
  end
  if found.err or is_broken(queue) then return nil, nil, true end
  local rank = tonumber(found[2])
  if rank and rank >= HELD_FROM then return nil end
  if rank and grain() > 0 then return aged_first(queue, want.low, want.high) end
  return found[1], rank
end

-- An explicit list is strict: the first queue that has a job wins.
local function choose_listed(want)
  for queue in string.gmatch(want.queues, '[^\31]+') do
    if call('ZSCORE', HEADS, queue) then
      local id, _, broken = first_in(queue, want)
      if id then return queue, id end
      if want.whole and not broken then want.stale[queue] = false end
    end
  end
end

-- Every queue but the reserved: walk the bounds upward until none can be better than the best found.
local function choose_any(want)
  local best, best_id, best_queue
  local from, step = 0, 2
  while true do
    local bounds = call('ZRANGE', HEADS, from, from + step - 1, 'WITHSCORES')
    for at = 1, #bounds, 2 do
      local queue, bound = bounds[at], tonumber(bounds[at + 1])
      if best and bound >= best then return best_queue, best_id end
      if not string.find(want.queues, '\31' .. queue .. '\31', 1, true) then
        local id, rank, broken = first_in(queue, want)
        if id and (not best or rank < best) then
          best, best_id, best_queue = rank, id, queue
        end
        if want.whole and not broken and rank ~= bound then want.stale[queue] = rank or false end
      end
    end
    if #bounds < step * 2 then return best_queue, best_id end
    from, step = from + step, 50
  end
end

local function choose(want)
  if want.mode == '=' then return choose_listed(want) end
  return choose_any(want)
end

-- Bounds that proved too low are raised only where they made the walk longer than it had to be.
local function correct_bounds(want, taken)
  for queue, rank in pairs(want.stale) do
    if queue ~= taken then
      if rank then call('ZADD', HEADS, rank, queue) else call('ZREM', HEADS, queue) end
    end
  end
  want.stale = {}
end

-- mode "*" or "=", lowest and highest rank, names between unit separators
local function read_want(mode, low, high, queues)
  return {mode = mode, low = low, high = high, queues = queues, whole = low == '0' and high == '+inf', stale = {}}
end
