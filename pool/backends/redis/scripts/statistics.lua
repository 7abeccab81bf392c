-- Totals and hours. Reads only.
-- KEYS 1-14 as in parts/keys.lua
-- Returns {now, delayed, overdue, next due ("" = none), counters as name, value, ...}.
--! include keys records
local delayed, overdue, next_due = 0, 0, nil
local limit = '(' .. string.format('%.6f', NOW - 1)
for _, queue in ipairs(call('HKEYS', QUEUES)) do
  delayed = delayed + call('ZCARD', ROOT .. 'scheduled:' .. queue)
  overdue = overdue + call('ZCOUNT', ROOT .. 'scheduled:' .. queue, '-inf', limit)
    + call('ZCOUNT', ROOT .. 'late:' .. queue, '-inf', limit)
  local first = call('ZRANGE', ROOT .. 'scheduled:' .. queue, '0', '0', 'WITHSCORES')
  if first[2] then next_due = math.min(next_due or math.huge, tonumber(first[2])) end
end
local answer = {string.format('%.6f', NOW), delayed, overdue, next_due and string.format('%.6f', next_due) or ''}
for _, value in ipairs(call('HGETALL', STATS)) do answer[#answer + 1] = value end
return answer
