-- The dead letters that failed last, the last first, without attempts. Reads only.
-- KEYS 1-14 as in parts/keys.lua
-- ARGV 1 limit
-- Returns jobs, each {id, status, record, state}.
--! include keys checks records
local limit, found, since = tonumber(ARGV[1]), {}, '-inf'
local function trim()
  table.sort(found, function(one, other)
    if one.ended ~= other.ended then return one.ended > other.ended end
    return one.id > other.id
  end)
  for at = #found, limit + 1, -1 do found[at] = nil end
  if #found == limit then since = found[limit].score end
end

for _, queue in ipairs(call('HKEYS', QUEUES)) do
  local flat = call('ZREVRANGEBYSCORE', ROOT .. 'failed:' .. queue, '+inf', since, 'WITHSCORES', 'LIMIT', '0', limit)
  for at = 1, #flat, 2 do found[#found + 1] = {id = flat[at], score = flat[at + 1], ended = tonumber(flat[at + 1])} end
  if #found >= 2 * limit then trim() end
end
trim()

local answer = {}
for _, letter in ipairs(found) do
  local id = letter.id
  local raw, kept = call('HGET', JOBS, id), call('HGET', STATE, id)
  if raw or kept then answer[#answer + 1] = {id, 'failed', raw or '', kept or ''} end
end
return answer
