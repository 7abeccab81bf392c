-- Failed or cancelled -> pending, by a person's order. Counts start anew, the history stays.
-- KEYS 1-14 as in parts/keys.lua
-- ARGV 1 job id  2 "1" = replace the payload by 3  4 frames of the line in the history that says so, by the person 5
-- Returns {"ok", job...} as in parts/telling.lua; {"none"}; {"illegal", status}; {"taken", unique key, holder}.
--! include keys checks ids records places limits intake batches endings telling
local id = ARGV[1]
local raw = call('HGET', JOBS, id)
local record, s = read_record(raw), state_of(id)
if not raw then return {'none'} end
if not record then return {'illegal', 'failed'} end
if not s or (s.status ~= FAILED and s.status ~= CANCELLED) then
  return {'illegal', status_name(id, s, record.queue)}
end
check_all()
check_queue(record.queue)
check_follow_ups(record)

local extras = record.extras ~= '' and read_frames(record.extras) or {}
if extras.U then
  local holder = call('HGET', UNIQUE, extras.U)
  local other = holder and holder ~= id and call('HGET', JOBS, holder) and (state_of(holder) or fresh_state(''))
  if other and (other.status == WAITING or other.status == RUNNING) then return {'taken', extras.U, holder} end
end

call('HINCRBY', STATS, 'seq', 0) -- refused by a full store: a revival is new work
call('ZREM', ROOT .. NAMES[s.status] .. ':' .. record.queue, id)
if extras.U then call('HSET', UNIQUE, extras.U, id) end
local has_changed = false
if ARGV[2] == '1' then
  raw = string.sub(raw, 1, record.payload_at - 1) .. ARGV[3]
  has_changed = true
  local body = struct.pack('>HddB', 0, 0, NOW, string.byte('b')) .. frame('l', ARGV[5]) .. ARGV[4]
  append_attempt(id, body)
end
if record.expires_at > 0 then -- its time to start is over; a person has asked for it now
  raw = string.sub(raw, 1, 17) .. struct.pack('>dd', record.run_at, 0) .. string.sub(raw, 34)
  has_changed = true
end
if has_changed then call('HSET', JOBS, id, raw) end
s.retries, s.kills, s.losses, s.misfits, s.flags, s.finished, s.lane = 0, 0, 0, 0, 0, 0, ''
local frames = read_frames(s.tail)
frames.w, frames.r = nil, nil
s.tail = write_frames(frames)
if extras.I or record.extras ~= '' then s.flags = F_EXTRAS end
local before = s.status
put_back(id, s, record, 0)
if extras.B then member_moved(extras.B, before, WAITING) end
announce()
return tell(id)
