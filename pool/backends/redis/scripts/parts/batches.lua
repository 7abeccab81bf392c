-- Batches: members are counted as they end, and the callbacks enter in the step of the last member, once each.
-- batch:<id>  hash  total, completed, failed, cancelled, told (bits: 1 on_complete, 2 on_success), c and s: the packed
-- callbacks, at: wall time of the last change     members:<id>  zset  ids, score 0     batches  zset  id by last change
-- The extras frame B of a record is the id of its batch.
local COUNTED = {[COMPLETED] = 'completed', [FAILED] = 'failed', [CANCELLED] = 'cancelled'}

-- Steps that meet a batch only after their first write leave alone what cannot be written whole.
local function is_fit(key)
  local callbacks = pcall_redis('HMGET', key, 'c', 's')
  if callbacks.err or type(pcall_redis('ZCARD', ROOT .. 'batches')) == 'table' then return false end
  for at = 1, 2 do
    local callback = callbacks[at] and unpack_job(callbacks[at])
    local queue = callback and callback[2]
    for _, set in ipairs(queue and SETS or {}) do
      if type(pcall_redis(set == 'completed:' and 'LLEN' or 'ZCARD', ROOT .. set .. queue)) == 'table' then return false end
    end
  end
  return true
end

local function tell_batch(key)
  local b = call('HMGET', key, 'total', 'completed', 'failed', 'cancelled', 'told', 'c', 's')
  for at = 1, 5 do b[at] = tonumber(b[at] or 0) or 0 end
  local total, completed, told = b[1], b[2], b[5]
  local over = completed + b[3] + b[4] >= total
  local tells_complete, tells_success = over and told % 2 == 0, completed >= total and told < 2
  if not tells_complete and not tells_success then return end
  call('HSET', key, 'told', told + (tells_complete and 1 or 0) + (tells_success and 2 or 0))
  if tells_complete and b[6] then admit_packed(b[6]) end
  if tells_success and b[7] then admit_packed(b[7]) end
end

-- A member came to an end, or back from one.
local function member_moved(batch, before, after)
  local key = ROOT .. 'batch:' .. batch
  if COUNTED[before] == COUNTED[after] or call('EXISTS', key) == 0 or not is_fit(key) then return end
  if COUNTED[before] then pcall_redis('HINCRBY', key, COUNTED[before], '-1') end
  if COUNTED[after] then pcall_redis('HINCRBY', key, COUNTED[after], '1') end
  call('ZADD', ROOT .. 'batches', NOW_TEXT, batch)
  tell_batch(key)
end

-- What a member's end may write to, looked at before the first write.
function check_batch(batch)
  call('ZCARD', ROOT .. 'batches')
  local callbacks = call('HMGET', ROOT .. 'batch:' .. batch, 'c', 's')
  for at = 1, 2 do
    check_queue_of(callbacks[at])
  end
end
