-- Remove finished jobs and idempotency records older than their retention, and fold old hours into the totals.
-- KEYS 1-14 as in parts/keys.lua
-- ARGV 1 seconds for completed (and cancelled)  2 for failed  3 for idempotency records  4 limit
-- Returns how many were removed.
--! include keys checks records places removal
check_all()
local limit, removed = tonumber(ARGV[4]), 0
local queues = call('HKEYS', QUEUES)
for _, queue in ipairs(queues) do check_queue(queue) end
call('ZREM', HEADS, '')

local function forget_set(set, queue, seconds)
  if removed >= limit then return end
  local ids = call('ZRANGEBYSCORE', ROOT .. set .. queue, '-inf', '(' .. string.format('%.6f', NOW - seconds), 'LIMIT', 0, limit - removed)
  for _, id in ipairs(ids) do remove(id, set, queue) end
  removed = removed + #ids
end

-- The list of completed jobs is in the order of their ends: its head is the oldest.
local function forget_completed(queue, seconds)
  while removed < limit do
    local ids = call('LRANGE', ROOT .. 'completed:' .. queue, 0, math.min(200, limit - removed) - 1)
    if #ids == 0 then return end
    for _, id in ipairs(ids) do
      local s = state_of(id)
      if s and s.finished >= NOW - seconds then return end
      remove(id, 'completed:', queue)
      removed = removed + 1
    end
  end
end

local function is_over(queue)
  for _, set in ipairs(SETS) do
    if count_in(set, queue) > 0 then return false end
  end
  return true
end

for _, queue in ipairs(queues) do
  forget_completed(queue, tonumber(ARGV[1]))
  forget_set('cancelled:', queue, tonumber(ARGV[1]))
  forget_set('failed:', queue, tonumber(ARGV[2]))
  if call('HGET', QUEUES, queue) == '0:0' and is_over(queue) then call('HDEL', QUEUES, queue) end
end

if removed < limit then
  local before = '(' .. string.format('%.6f', NOW - tonumber(ARGV[3]))
  local names = call('ZRANGEBYSCORE', IDEM_AT, '-inf', before, 'LIMIT', 0, limit - removed)
  for _, name in ipairs(names) do
    call('HDEL', IDEM, name)
    call('ZREM', IDEM_AT, name)
  end
  removed = removed + #names
end

local hours = call('HGETALL', STATS)
for at = 1, #hours, 2 do
  local hour, what = string.match(hours[at], '^h:(%d+):(.+)$')
  if hour and tonumber(hour) < tonumber(HOUR) - 25 then
    call('HINCRBY', STATS, 't:' .. what, hours[at + 1])
    call('HDEL', STATS, hours[at])
  end
end
return removed
