-- Remove finished jobs and idempotency records older than their retention, and fold old hours into the totals.
-- KEYS 1-14 as in parts/keys.lua
-- ARGV 1 seconds for completed (and cancelled)  2 for failed  3 for idempotency records  4 limit
-- Returns how many were removed.
--! include keys checks ids listing records places limits intake batches removal
check_all()
local limit, removed = tonumber(ARGV[4]), 0
local MOST_AT_ONCE = 200
local queues = call('HKEYS', QUEUES)
for _, queue in ipairs(queues) do check_queue(queue) end
for _, key in ipairs({OPENS, LIMIT_AT, ROOT .. 'batches'}) do call('ZCARD', key) end
call('HLEN', LIMITS)
call('ZREM', HEADS, '')

local function forget_set(set, queue, seconds)
  if removed >= limit then return end
  local ids = call('ZRANGEBYSCORE', ROOT .. set .. queue, '-inf', '(' .. string.format('%.6f', NOW - seconds), 'LIMIT', 0, limit - removed)
  for _, id in ipairs(ids) do remove(id, set, queue) end
  removed = removed + #ids
end

-- The first of these completed jobs that ended before `before`, and what their extras owe is done. One whose state
-- cannot be read is old enough: nobody can say when it ended.
local function untie_old(ids, queue, before)
  local states, records, old = call('HMGET', STATE, unpack(ids)), call('HMGET', JOBS, unpack(ids)), {}
  for at, id in ipairs(ids) do
    local state = states[at]
    if state and #state >= 46 and struct.unpack('>d', state, 39) >= before then return old end -- `finished`
    local record = read_record(records[at])
    if record and record.extras ~= '' then untie(id, queue, record, state_of(id)) end
    old[#old + 1] = id
  end
  return old
end

-- The list of completed jobs is in the order of their ends: its head is the oldest. They are most of what there is to
-- forget, so they go many with one command.
local function forget_completed(queue, seconds)
  local list = ROOT .. 'completed:' .. queue
  while removed < limit do
    local ids = call('LRANGE', list, 0, math.min(MOST_AT_ONCE, limit - removed) - 1)
    local old = #ids > 0 and untie_old(ids, queue, NOW - seconds) or {}
    if #old == 0 then return end
    call('LTRIM', list, #old, -1)
    for _, hash in ipairs({JOBS, STATE, PAST}) do call('HDEL', hash, unpack(old)) end
    delist(old)
    call('ZREM', EXPIRY, unpack(old))
    removed = removed + #old
    if #old < #ids then return end
  end
end

local function is_over(queue)
  if running_in(queue) > 0 then return false end
  for _, set in ipairs(SETS) do
    if count_in(set, queue) > 0 then return false end
  end
  return true
end

for _, queue in ipairs(queues) do
  forget_completed(queue, tonumber(ARGV[1]))
  forget_set('cancelled:', queue, tonumber(ARGV[1]))
  forget_set('failed:', queue, tonumber(ARGV[2]))
  if call('HGET', QUEUES, queue) == '0:0' and is_over(queue) then
    call('HDEL', QUEUES, queue)
    call('HDEL', STATS, 'r:' .. queue)
  end
end

if removed < limit then
  local before = '(' .. string.format('%.6f', NOW - tonumber(ARGV[3]))
  local names = call('ZRANGEBYSCORE', IDEM_AT, '-inf', before, 'LIMIT', 0, limit - removed)
  for _, name in ipairs(names) do
    call('HDEL', IDEM, name)
    call('ZREM', IDEM_AT, name)
  end
  removed = removed + #names
end

-- Limits that nobody has used for an hour and that hold nobody back.
for _, key in ipairs(call('ZRANGEBYSCORE', LIMIT_AT, '-inf', string.format('%.6f', NOW - 3600), 'LIMIT', 0, 100)) do
  local l = not is_limit_broken('', key) and read_limit(key)
  local is_used = l and (l.running > 0 or l.level < l.count - WHOLE or #lanes_of(key) > 0)
  if is_used or l == false then
    call('ZADD', LIMIT_AT, NOW_TEXT, key)
  else
    call('HDEL', LIMITS, key)
    call('ZREM', LIMIT_AT, key)
    call('ZREM', OPENS, key)
    call('DEL', ROOT .. 'shown:' .. key, ROOT .. 'lanes:' .. key)
  end
end

local batches = ROOT .. 'batches'
local kept = math.max(tonumber(ARGV[1]), tonumber(ARGV[2]))
for _, batch in ipairs(call('ZRANGEBYSCORE', batches, '-inf', '(' .. string.format('%.6f', NOW - kept), 'LIMIT', 0, 100)) do
  if pcall_redis('ZCARD', ROOT .. 'members:' .. batch) == 0 and type(pcall_redis('HLEN', ROOT .. 'batch:' .. batch)) ~= 'table' then
    call('DEL', ROOT .. 'batch:' .. batch, ROOT .. 'members:' .. batch)
    call('ZREM', batches, batch)
  end
end
announce()

local hours = call('HGETALL', STATS)
for at = 1, #hours, 2 do
  local hour, what = string.match(hours[at], '^h:(%d+):(.+)$')
  if hour and tonumber(hour) < tonumber(HOUR) - 25 then
    pcall_redis('HINCRBY', STATS, 't:' .. what, hours[at + 1])
    call('HDEL', STATS, hours[at])
  end
end
return removed
