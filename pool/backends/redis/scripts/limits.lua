-- Every limit with what it allows and what of it is used. Reads only.
-- KEYS 1-14 as in parts/keys.lua
-- Returns one {key, count, per seconds, max_running, running, waiting, wall time at which its rate opens ("" = it is open)}
--      per limit.
--! include keys checks records places limits
local function waiting(key)
  local total = 0
  for _, queue in ipairs(call('SMEMBERS', ROOT .. 'lanes:' .. key)) do total = total + call('ZCARD', lane_of(queue, key)) end
  local shown = call('HGETALL', ROOT .. 'shown:' .. key)
  for at = 1, #shown, 2 do
    if rank_in_sight(string.match(shown[at], '^(.*)\31'), shown[at + 1]) then total = total + 1 end
  end
  return total
end

local answer = {}
for _, key in ipairs(call('HKEYS', LIMITS)) do
  local l = read_limit(key)
  answer[#answer + 1] = {key, l.count, string.format('%.6f', l.per), l.max, l.running, waiting(key),
    l.opens and string.format('%.6f', l.opens) or ''}
end
return answer
