-- Ids with the beginning of their records, from which the caller makes out the order of the line. Reads only.
-- KEYS 1-14 as in parts/keys.lua
-- ARGV 1 after this id ("" = from the first)  2 how many
-- Returns {id, beginning, ...}.
--! include keys ids listing
local answer = {}
for _, id in ipairs(ids_from(ARGV[1], tonumber(ARGV[2]), true)) do
  answer[#answer + 1] = id
  answer[#answer + 1] = string.sub(call('HGET', JOBS, id) or '', 1, 17)
end
return answer
