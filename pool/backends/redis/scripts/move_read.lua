-- Jobs as they are stored, with their attempts. Reads only.
-- KEYS 1-14 as in parts/keys.lua
-- ARGV ids
-- Returns one {id, status, record, state, attempts, 1 = stands among the late} per id that is there.
--! include keys records telling
local answer = {}
for _, id in ipairs(ARGV) do
  local job = tell(id)
  if job[1] == 'ok' then
    local record = read_record(job[4])
    local is_late = record and call('ZSCORE', ROOT .. 'late:' .. record.queue, id)
    answer[#answer + 1] = {id, job[3], job[4], job[5], job[6], is_late and 1 or 0}
  end
end
return answer
