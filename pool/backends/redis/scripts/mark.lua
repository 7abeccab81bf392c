-- Put on the mark of a move, or take it off and open the queues.
-- KEYS 1-14 as in parts/keys.lua
-- ARGV 1 the mark, "" = take it off
-- Returns nothing.
--! include keys checks records places limits moving
check_all()
local queues = call('HKEYS', QUEUES)
for _, queue in ipairs(queues) do check_queue(queue) end
mark_of_move()
call('ZREM', HEADS, '')
call('DEL', HEADS)
local is_marked = ARGV[1] ~= ''
if is_marked then call('HSET', MOVING, 'mark', ARGV[1]) else call('HDEL', MOVING, 'mark') end

for _, queue in ipairs(queues) do
  local digit, limit = string.match(call('HGET', QUEUES, queue), '^(%d):(%d+)$')
  digit = tonumber(digit or 0) % 2 + (is_marked and 2 or 0)
  call('HSET', QUEUES, queue, digit .. ':' .. (limit or 0))
  if digit == 0 then
    local first = call('ZRANGE', ROOT .. 'pending:' .. queue, '0', '0', 'WITHSCORES')
    if first[1] and tonumber(first[2]) < HELD_FROM then
      local every = {}
      for priority = 0, 100 do every[priority] = true end
      touched[queue] = {rank = tonumber(first[2]), priorities = every}
    end
  end
end
if not is_marked then
  local limits = pcall_redis('HKEYS', LIMITS) -- a broken key of limits limits nothing
  for _, key in ipairs(limits.err and {} or limits) do freed[key] = true end
  announce()
end
