-- A job as an answer: {"ok", id, status, record, state ("" none), attempts ("" none)}; Python unpacks the rest.
local function owner_of(raw, record)
  if not record then return '' end
  return record.is_local and 'local' or string.sub(raw, record.owner_at, record.owner_at + record.owner_n - 1)
end

local function tell(id)
  local raw, kept = call('HGET', JOBS, id), call('HGET', STATE, id)
  if not raw and not kept then return {'none'} end
  local record, s = read_record(raw), kept and read_state(kept)
  local queue = record and record.queue or (s and s.queue)
  local status = queue and status_name(id, s, queue) or 'failed'
  return {'ok', id, status, raw or '', kept or '', call('HGET', PAST, id) or ''}
end
