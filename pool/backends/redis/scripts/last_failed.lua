-- The dead letters that failed last, the last first, without attempts. Reads only.
-- KEYS 1-14 as in parts/keys.lua
-- ARGV 1 limit
-- Returns jobs, each {id, status, record, state}.
--! include keys checks records
local limit, found = tonumber(ARGV[1]), {}
for _, queue in ipairs(call('HKEYS', QUEUES)) do
  local flat = call('ZREVRANGE', ROOT .. 'failed:' .. queue, '0', limit - 1, 'WITHSCORES')
  for at = 1, #flat, 2 do found[#found + 1] = {id = flat[at], ended = tonumber(flat[at + 1])} end
end
table.sort(found, function(one, other)
  if one.ended ~= other.ended then return one.ended > other.ended end
  return one.id > other.id
end)

local answer = {}
for at = 1, math.min(limit, #found) do
  local id = found[at].id
  local raw, kept = call('HGET', JOBS, id), call('HGET', STATE, id)
  if raw or kept then answer[#answer + 1] = {id, 'failed', raw or '', kept or ''} end
end
return answer
