-- Change what waiting is worth: heads get new bounds, nothing else is re-ranked; everybody is rung.
-- KEYS 1-14 as in parts/keys.lua
-- ARGV 1 seconds that are worth ten points  2 microseconds that are worth one
-- Returns nothing.
--! include keys checks records places
check_all()
local queues = call('HKEYS', QUEUES)
for _, queue in ipairs(queues) do check_queue(queue) end
call('HSET', STATS, 'ageing', ARGV[2], 'ageing_s', ARGV[1])
call('DEL', HEADS)
local every = {}
for priority = 0, 100 do every[priority] = true end
for _, queue in ipairs(queues) do
  local first = call('ZRANGE', ROOT .. 'pending:' .. queue, '0', '0', 'WITHSCORES')
  if first[1] and tonumber(first[2]) < HELD_FROM then
    touched[queue] = {rank = tonumber(first[2]), priorities = every}
  end
end
announce()
