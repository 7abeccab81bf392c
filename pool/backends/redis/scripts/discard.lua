-- Failed -> cancelled with reason "discarded".
-- KEYS 1-14 as in parts/keys.lua
-- ARGV 1 job id
-- Returns {"ok", job...} as in parts/telling.lua; {"none"}; {"illegal", status}.
--! include keys checks ids records places limits intake batches endings telling
local id = ARGV[1]
local raw = call('HGET', JOBS, id)
local record, s = read_record(raw), state_of(id)
if not raw and not s then return {'none'} end
if not s or s.status ~= FAILED then
  return {'illegal', status_name(id, s, record and record.queue or s.queue)}
end
check_all()
check_queue(s.queue)
if record then check_follow_ups(record) end
call('ZREM', ROOT .. 'failed:' .. s.queue, id)
finish(id, s, CANCELLED, 'discarded', record)
announce()
return tell(id)
