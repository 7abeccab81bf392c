-- Limits: jobs of a limit stand in pending: behind all others (HELD_FROM + rank), out of sight, until there is room for
-- one of them to start. Of each lane (limit, queue, priority) only the head is in sight, and only while the limit has
-- room, so a used-up limit costs other jobs nothing however many wait. Who may truly start is decided at the claim.
-- The extras frame L of a record: >ddd count, per seconds, max_running, then the key of the limit. Keys of a limit:
-- limits  hash  key -> >ddddd count, per, max_running, starts in the bucket, as of     limit_at  zset  key by last use
-- opens   zset  key by the time at which its used-up rate lets the next one go
-- lanes:<key> set of queues with jobs out of sight     lane:<queue> US <key> zset of those by rank
-- shown:<key> hash queue US class -> id in sight       busy:<key>  set of running ids (no crash can leak one)
local LIMITS, OPENS, LIMIT_AT = ROOT .. 'limits', ROOT .. 'opens', ROOT .. 'limit_at'
local WHOLE = 1 - 1e-6 -- a bucket asked at the very moment it fills must not be a rounding error short
local freed = {} -- keys of limits to look at before the step ends

local function lane_of(queue, key) return ROOT .. 'lane:' .. queue .. '\31' .. key end

-- A limit with a key of the wrong type is no limit: its jobs are served like any others.
local limit_fitness = {}
local function is_limit_broken(queue, key)
  local name = queue .. '\31' .. key
  if limit_fitness[name] == nil then
    local broken = false
    local function look(command, at) if type(pcall_redis(command, at)) == 'table' then broken = true end end
    look('HLEN', LIMITS)
    look('ZCARD', OPENS)
    look('ZCARD', LIMIT_AT)
    look('SCARD', ROOT .. 'lanes:' .. key)
    look('HLEN', ROOT .. 'shown:' .. key)
    look('SCARD', ROOT .. 'busy:' .. key)
    look('ZCARD', lane_of(queue, key))
    limit_fitness[name] = broken
  end
  return limit_fitness[name]
end

-- The key of a job's limit; nil for none.
local function limit_of(queue, extras)
  local said = extras.L
  if not said then return nil end
  local key = string.sub(said, 25)
  if is_limit_broken(queue, key) then return nil end
  return key
end

local function limit_of_record(record)
  if record.extras == '' then return nil end
  return limit_of(record.queue, read_frames(record.extras))
end

-- The newest declaration of a limit holds.
local function declare(said)
  local key = string.sub(said, 25)
  local known = call('HGET', LIMITS, key)
  call('ZADD', LIMIT_AT, NOW_TEXT, key)
  if known and string.sub(known, 1, 24) == string.sub(said, 1, 24) then return end
  local count = struct.unpack('>d', said)
  local level, at = count, NOW
  if known and #known >= 40 then
    local old_count, _, _, old_level, old_at = struct.unpack('>ddddd', known)
    at = old_at
    if old_count > 0 then level = math.min(old_level, count) end
  end
  call('HSET', LIMITS, key, string.sub(said, 1, 24) .. struct.pack('>dd', level, at))
end

-- The limit with its bucket filled up to now.
local function read_limit(key)
  local raw = call('HGET', LIMITS, key)
  if not raw or #raw < 40 then return nil end
  local l = {}
  l.count, l.per, l.max, l.level, l.at = struct.unpack('>ddddd', raw)
  if l.count > 0 then
    l.level = math.min(l.count, l.level + math.max(0, NOW - l.at) * l.count / l.per)
    l.at = NOW
    if l.level < WHOLE then l.opens = NOW + (1 - l.level) * l.per / l.count end
  end
  l.running = call('SCARD', ROOT .. 'busy:' .. key)
  l.may_run = l.max == 0 or l.running < l.max
  return l
end

-- Whether a job may start now; it counts as started.
local function take_room(key, id)
  local l = read_limit(key)
  if not l then return true end
  freed[key] = true
  if not l.may_run or l.opens then return false end
  if l.count > 0 then
    call('HSET', LIMITS, key, struct.pack('>ddddd', l.count, l.per, l.max, math.max(0, l.level - 1), l.at))
  end
  call('SADD', ROOT .. 'busy:' .. key, id)
  return true
end

-- Out of sight, in its place.
local function hold(id, queue, rank, key)
  call('ZADD', ROOT .. 'pending:' .. queue, HELD_FROM + rank, id)
  call('ZADD', lane_of(queue, key), rank, id)
  call('SADD', ROOT .. 'lanes:' .. key, queue)
  freed[key] = true
end

-- To pending: in sight, or under its limit.
local function stand(id, queue, priority, seq, key)
  if key then return hold(id, queue, rank_of(priority, seq), key) end
  stand_pending(id, queue, priority, seq)
end

-- A job of the limit is found to be running already: it counts, whatever room there is.
local function enter_limit(id, queue, key)
  call('ZREM', lane_of(queue, key), id)
  call('SADD', ROOT .. 'busy:' .. key, id)
  freed[key] = true
end

-- A job of the limit has left its worker or its lane.
local function leave_limit(id, queue, key)
  call('SREM', ROOT .. 'busy:' .. key, id)
  call('ZREM', lane_of(queue, key), id)
  freed[key] = true
end

local function rank_in_sight(queue, id)
  local rank = id and tonumber(call('ZSCORE', ROOT .. 'pending:' .. queue, id) or HELD_FROM)
  return rank and rank < HELD_FROM and rank or nil
end

-- Bring the head of one class into sight, in place of a later one if need be.
local function show(queue, key, id, rank, class)
  local field, shown = queue .. '\31' .. string.format('%d', class), ROOT .. 'shown:' .. key
  local known = call('HGET', shown, field)
  local known_rank = rank_in_sight(queue, known)
  if known_rank and known_rank < rank then return end
  if known_rank then hold(known, queue, known_rank, key) end
  call('ZREM', lane_of(queue, key), id)
  call('HSET', shown, field, id)
  stand_pending(id, queue, 100 - class, rank - class * SPAN)
end

-- The head of each class of a lane; what is not out of sight in pending: has left by another way.
local function let_go_lane(queue, key)
  local low, lane = 0, lane_of(queue, key)
  while true do
    local first = call('ZRANGEBYSCORE', lane, low, '+inf', 'WITHSCORES', 'LIMIT', '0', '1')
    if not first[1] then break end
    local id, rank = first[1], tonumber(first[2])
    local class = math.floor(rank / SPAN)
    local stands = call('ZSCORE', ROOT .. 'pending:' .. queue, id)
    if stands and tonumber(stands) >= HELD_FROM then
      show(queue, key, id, rank, class)
      low = (class + 1) * SPAN
    else
      call('ZREM', lane, id)
    end
  end
end

-- The queues with jobs of the limit out of sight.
local function lanes_of(key)
  local found, lanes = {}, ROOT .. 'lanes:' .. key
  for _, queue in ipairs(call('SMEMBERS', lanes)) do
    if not is_limit_broken(queue, key) then
      if call('ZCARD', lane_of(queue, key)) > 0 then found[#found + 1] = queue else call('SREM', lanes, queue) end
    end
  end
  table.sort(found)
  return found
end

-- Where there is room let the heads go, and note when a used-up rate opens again.
local function let_go(key)
  local l = read_limit(key)
  if not l then return end
  local lanes = lanes_of(key)
  if #lanes > 0 and l.may_run and l.opens then
    note_time(OPENS, l.opens)
    call('ZADD', OPENS, string.format('%.6f', l.opens), key)
  else
    call('ZREM', OPENS, key)
  end
  if not l.may_run or l.opens then return end
  for _, queue in ipairs(lanes) do let_go_lane(queue, key) end
end

local announce_places = announce
local function announce()
  local due = freed
  freed = {}
  for key in pairs(due) do let_go(key) end
  announce_places()
end
