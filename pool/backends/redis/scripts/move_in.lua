-- Put jobs down that come from another store, in a store that bears the mark. Those that are there already stay.
-- KEYS 1-14 as in parts/keys.lua
-- ARGV eight per job: id, queue, status, record (sequence 0), state ("" none), attempts ("" none), time it is due or
--      ended ("" none), 1 = it stands among the late
-- Returns 1, or 0 when the store bears no mark.
--! include keys checks ids records places limits intake moving
local JOB_WORDS = 8
check_all()
for at = 1, #ARGV, JOB_WORDS do check_queue(ARGV[at + 1]) end
if not mark_of_move() then return 0 end
call('HINCRBY', STATS, 'seq', 0) -- refused by a full store

local function close(queue)
  if not settings(queue).known then call('HSET', QUEUES, queue, '2:0') end
end

local function put_down(id, queue, status, raw, state, past, at, is_late)
  local seq = next_sequence(1) + 1
  raw = string.sub(raw, 1, 9) .. struct.pack('>d', seq) .. string.sub(raw, 18)
  local record = parse_record(raw)
  local extras = read_frames(record.extras)
  call('HSET', JOBS, id, raw)
  enlist(id, seq)
  if state ~= '' then call('HSET', STATE, id, state) end
  if past ~= '' then call('HSET', PAST, id, past) end
  if extras.B then call('ZADD', ROOT .. 'members:' .. extras.B, '0', id) end
  close(queue)
  if status == 'completed' then
    call('RPUSH', ROOT .. 'completed:' .. queue, id)
  elseif status == 'failed' or status == 'cancelled' then
    call('ZADD', ROOT .. status .. ':' .. queue, at, id)
  else
    if extras.U then call('HSET', UNIQUE, extras.U, id) end
    if record.expires_at > 0 then call('ZADD', EXPIRY, record.expires_at, id) end
    if status == 'scheduled' then
      stand_scheduled(id, queue, tonumber(at))
    else
      local key = limit_of(queue, extras)
      if key then declare(extras.L) end
      stand(id, queue, record.priority, seq, key)
      if is_late == '1' then call('ZADD', ROOT .. 'late:' .. queue, at, id) end
    end
  end
end

for at = 1, #ARGV, JOB_WORDS do
  if call('HEXISTS', JOBS, ARGV[at]) == 0 then put_down(unpack(ARGV, at, at + JOB_WORDS - 1)) end
end
return 1
