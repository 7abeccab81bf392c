-- Change a queue's settings; resuming rings.
-- KEYS 1-14 as in parts/keys.lua
-- ARGV 1 queue  2 paused ("0", "1", "" = as it is)  3 max_pending ("" = as it is)
-- Returns nothing.
-- While the store is moved: refused with {"moving", mark}.
--! include keys checks records places limits moving
local queue = ARGV[1]
check_all()
local moving = mark_of_move()
if moving then return {'moving', moving} end
check_queue(queue)
local now = settings(queue)
local paused, limit = now.paused and '1' or '0', string.format('%d', now.max_pending)
if ARGV[2] ~= '' then paused = ARGV[2] end
if ARGV[3] ~= '' then limit = ARGV[3] end
call('ZREM', HEADS, '')
call('HSET', QUEUES, queue, paused .. ':' .. limit)
settings_seen[queue] = nil
if paused == '1' then
  call('ZREM', HEADS, queue)
else
  local first = call('ZRANGE', ROOT .. 'pending:' .. queue, '0', '0', 'WITHSCORES')
  if first[1] then
    local every = {}
    for priority = 0, 100 do every[priority] = true end
    touched[queue] = {rank = tonumber(first[2]), priorities = every}
  end
  announce()
end
