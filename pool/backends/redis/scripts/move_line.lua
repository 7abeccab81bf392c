-- Ids with the beginning of their records, from which the caller makes out the order of the line. Reads only.
-- KEYS 1-14 as in parts/keys.lua
-- ARGV 1 after this id ("" = from the first)  2 how many
-- Returns {id, beginning, ...}.
--! include keys
local from = ARGV[1] == '' and '-' or '(' .. ARGV[1]
local answer = {}
for _, id in ipairs(call('ZRANGEBYLEX', IDS, from, '+', 'LIMIT', 0, ARGV[2])) do
  answer[#answer + 1] = id
  answer[#answer + 1] = string.sub(call('HGET', JOBS, id) or '', 1, 17)
end
return answer
