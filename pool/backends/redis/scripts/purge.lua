-- Remove jobs of a queue that are in one state (never running ones) and were there when the caller began.
-- KEYS 1-14 as in parts/keys.lua
-- ARGV 1 queue  2 limit  3 highest sequence or wall time of the caller's first call ("" = this is the first)
--      4 on: states
-- Returns {removed, mark for the next call}.
--! include keys checks ids listing records places limits intake batches removal
local queue, limit = ARGV[1], tonumber(ARGV[2])
check_all()
check_queue(queue)
call('ZREM', HEADS, '')
local top = ARGV[3] ~= '' and tonumber(ARGV[3]) or tonumber(call('HGET', STATS, 'seq') or '0')
local removed = 0
for at = 4, #ARGV do
  local set = ARGV[at] .. ':'
  local from = 0
  while removed < limit do
    local ids = call(set == 'completed:' and 'LRANGE' or 'ZRANGE', ROOT .. set .. queue, from, from + 199)
    if #ids == 0 then break end
    for _, id in ipairs(ids) do
      local record = read_record(call('HGET', JOBS, id))
      if removed >= limit then break end
      if record and record.seq > top then
        from = from + 1
      else
        remove(id, set, queue)
        removed = removed + 1
      end
    end
  end
end
announce()
return {removed, string.format('%d', top)}
