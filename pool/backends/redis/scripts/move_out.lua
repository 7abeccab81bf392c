-- Remove jobs that another store has taken over, from a store that bears the mark. What hangs on them (batches, records
-- of idempotency) is carried by itself and not touched.
-- KEYS 1-14 as in parts/keys.lua
-- ARGV two per job: id, the set it stands in ("pending:", "scheduled:", "completed:", "failed:", "cancelled:")
-- Returns 1, or 0 when the store bears no mark.
--! include keys checks ids listing records places limits moving
check_all()
if not mark_of_move() then return 0 end
call('ZREM', HEADS, '')

local function carry_off(id, set)
  local record, s = read_record(call('HGET', JOBS, id)), state_of(id)
  local queue = record and record.queue or (s and s.queue) or ''
  if set == 'completed:' then call('LREM', ROOT .. set .. queue, 1, id) else call('ZREM', ROOT .. set .. queue, id) end
  leave_place(id, queue)
  if record and record.extras ~= '' then
    local extras = read_frames(record.extras)
    local key = limit_of(queue, extras)
    if key then leave_limit(id, queue, key) end
    if extras.B then call('ZREM', ROOT .. 'members:' .. extras.B, id) end
    if extras.U and call('HGET', UNIQUE, extras.U) == id then call('HDEL', UNIQUE, extras.U) end
  end
  for _, key in ipairs({JOBS, STATE, PAST}) do call('HDEL', key, id) end
  delist({id})
  call('ZREM', EXPIRY, id)
end

for at = 1, #ARGV, 2 do carry_off(ARGV[at], ARGV[at + 1]) end
return 1
