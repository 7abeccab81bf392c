-- Redis has no rollback: a wrong type must be met before the first write. HLEN, ZCARD and LLEN raise WRONGTYPE.
local function check_all()
  for _, key in ipairs({JOBS, STATE, PAST, QUEUES, STATS, UNIQUE, IDEM}) do call('HLEN', key) end
  for _, key in ipairs({IDS, HEADS, DUES, IDEM_AT, BELLS, EXPIRY, POOLS}) do call('ZCARD', key) end
end

local SETS = {'pending:', 'scheduled:', 'late:', 'running:', 'completed:', 'failed:', 'cancelled:'}
local function count_in(set, queue) return call(set == 'completed:' and 'LLEN' or 'ZCARD', ROOT .. set .. queue) end

local function check_queue(queue)
  for _, set in ipairs(SETS) do count_in(set, queue) end
end
