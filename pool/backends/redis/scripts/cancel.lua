-- Cancel a waiting job at once, or flag a running one.
-- KEYS 1-14 as in parts/keys.lua
-- ARGV 1 job id  2 owner ("" = anyone's)
-- Returns {"ok", job...} as in parts/telling.lua; {"none"}; {"illegal", status}.
--! include keys checks ids records places limits intake batches endings telling
local id = ARGV[1]
check_all()
local raw = call('HGET', JOBS, id)
local record, s = read_record(raw), state_of(id)
if not raw or (ARGV[2] ~= '' and owner_of(raw, record) ~= ARGV[2]) then return {'none'} end
if not record then return {'illegal', s and NAMES[s.status] or 'failed'} end
check_queue(record.queue)
check_follow_ups(record)
if s and s.status ~= WAITING and s.status ~= RUNNING then return {'illegal', NAMES[s.status]} end
call('ZREM', HEADS, '')
if s and s.status == RUNNING then
  if not has(s.flags, F_CANCEL) then
    s.flags = s.flags + F_CANCEL
    save_state(id, s)
  end
else
  end_waiting(id, record.queue, s, record, CANCELLED, 'cancelled')
end
announce()
return tell(id)
