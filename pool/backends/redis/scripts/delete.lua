-- Remove jobs for good, unless they run.
-- KEYS 1-14 as in parts/keys.lua
-- ARGV ids
-- Returns how many were removed.
--! include keys checks ids listing records places limits intake batches removal
check_all()
local found = {}
for _, id in ipairs(ARGV) do
  local record, s = read_record(call('HGET', JOBS, id)), state_of(id)
  local queue = record and record.queue or (s and s.queue)
  if queue and not (s and s.status == RUNNING) then
    check_queue(queue)
    if record then check_follow_ups(record) end
    found[#found + 1] = {id, status_name(id, s, queue) .. ':', queue}
  end
end
call('ZREM', HEADS, '')
for _, each in ipairs(found) do remove(each[1], each[2], each[3]) end
announce()
return #found
