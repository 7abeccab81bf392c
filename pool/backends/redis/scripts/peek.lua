-- Whether a job for this want may be there. Reads only, so that it may be asked of a full or read-only server.
-- KEYS 1-14 as in parts/keys.lua
-- ARGV 1 mode ("*" or "=")  2 names of queues between unit separators
-- Returns 1 or 0.
--! include keys
local HELD_FROM = '(7388718138654720' -- as in parts/places.lua: what is behind it waits for room under its limit
local function wanted(queue)
  local listed = string.find(ARGV[2], '\31' .. queue .. '\31', 1, true) ~= nil
  return listed == (ARGV[1] == '=')
end
for _, queue in ipairs(call('ZRANGE', HEADS, 0, 50)) do
  if wanted(queue) and call('ZCOUNT', ROOT .. 'pending:' .. queue, '-inf', HELD_FROM) > 0 then return 1 end
end
for _, queue in ipairs(call('ZRANGEBYSCORE', DUES, '-inf', NOW_TEXT, 'LIMIT', 0, 50)) do
  if wanted(queue) and call('ZCOUNT', ROOT .. 'scheduled:' .. queue, '-inf', NOW_TEXT) > 0 then return 1 end
end
return 0
