-- Redis has no rollback: a wrong type must be met before the first write. HLEN, ZCARD and LLEN raise WRONGTYPE.
local function check_all()
  for _, key in ipairs({JOBS, STATE, PAST, QUEUES, STATS, UNIQUE, IDEM}) do call('HLEN', key) end
  for _, key in ipairs({IDS, HEADS, DUES, IDEM_AT, BELLS, EXPIRY, POOLS}) do call('ZCARD', key) end
end

local SETS = {'pending:', 'scheduled:', 'late:', 'completed:', 'failed:', 'cancelled:'}
local function count_in(set, queue) return call(set == 'completed:' and 'LLEN' or 'ZCARD', ROOT .. set .. queue) end

-- Running jobs are only counted: which they are the lanes say. So a step that ends one and hands out one of the same queue
-- has nothing to write here.
local function running_in(queue) return math.max(0, tonumber(call('HGET', STATS, 'r:' .. queue) or 0) or 0) end

local function count_running(queue, more)
  local field = 'r:' .. queue
  if type(pcall_redis('HINCRBY', STATS, field, more)) == 'table' then call('HSET', STATS, field, more) end -- it was no number
end

local function check_queue(queue)
  for _, set in ipairs(SETS) do count_in(set, queue) end
end
