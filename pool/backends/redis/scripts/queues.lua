-- Every queue with a job or a setting. Reads only.
-- KEYS 1-14 as in parts/keys.lua
-- Returns one {name, pending, scheduled, running, completed, failed, cancelled, overdue, paused, max_pending,
--      seconds that the oldest pending job has waited ("" = none)} per queue.
--! include keys checks records places
local function overdue(queue)
  local limit = '(' .. string.format('%.6f', NOW - 1)
  return call('ZCOUNT', ROOT .. 'scheduled:' .. queue, '-inf', limit) + call('ZCOUNT', ROOT .. 'late:' .. queue, '-inf', limit)
end

local function waits_since(id)
  local record, s = read_record(call('HGET', JOBS, id)), state_of(id)
  if not record then return NOW end
  return math.min(NOW, math.max(record.created, record.run_at, s and s.due or 0))
end

-- Within one priority the first is the oldest: look at the first of each priority that is there.
local function oldest(queue)
  local since, low = nil, 0
  while true do
    local first = call('ZRANGEBYSCORE', ROOT .. 'pending:' .. queue, low, '(' .. HELD_FROM, 'WITHSCORES', 'LIMIT', '0', '1')
    if not first[1] then break end
    since = math.min(since or NOW, waits_since(first[1]))
    low = (math.floor(tonumber(first[2]) / SPAN) + 1) * SPAN
  end
  return since and string.format('%.6f', math.max(0, NOW - since)) or ''
end

local answer = {}
for _, queue in ipairs(call('HKEYS', QUEUES)) do
  local row, total = {queue}, 0
  for _, set in ipairs({'pending:', 'scheduled:', 'running:', 'completed:', 'failed:', 'cancelled:'}) do
    row[#row + 1] = set == 'running:' and running_in(queue) or count_in(set, queue)
    total = total + row[#row]
  end
  local now = settings(queue)
  row[8], row[9], row[10], row[11] = overdue(queue), now.paused and 1 or 0, now.max_pending, oldest(queue)
  if total > 0 or now.paused or now.max_pending > 0 then answer[#answer + 1] = row end
end
return answer
