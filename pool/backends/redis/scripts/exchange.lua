-- Settle what a lane held and hand out the next job, in one step.
-- KEYS 1 jobs  2 state  3 heads  4 dues  5 stats  6 pool:<pool> of the lane; the long road uses the others of
--      parts/keys.lua as well (same hash tag; each is looked at before the first write)
-- ARGV 1 lane ("slot.generation/lane")  2 slot  3 generation  4 request  5 mark of the process ("" none)
--      6 want: "" none, "*" or "="  7 lowest rank  8 highest rank  9 class (its bell)  10 lease seconds (0: the pool's)
--      11 names of queues between unit separators
--      12 job id ("" = nothing to settle)  13 claim  14 outcome  15 reason  16 delay  17 misfit (0/1)  18 started_at
--      19 frames for the job  20 frames for the attempt (kept if not "" or not completed)  21 on: children, 5 each
-- Returns {verdict, settled, ...}: verdict 0 fine, 1 refused (then the last request), 2 barred;
--      settled 0 none, 1 yes, 2 lost; then id, record, state of the claim if there is one.
local call, pcall_redis = redis.call, redis.pcall
local JOBS, STATE, HEADS, DUES, STATS, POOL = unpack(KEYS)
local ROOT = string.sub(JOBS, 1, -5)
local clock = call('TIME')
local NOW = tonumber(clock[1]) + tonumber(clock[2]) / 1000000
local NOW_TEXT = clock[1] .. '.' .. string.sub('000000' .. clock[2], -6)
local LANE, JOB, WANT = ARGV[1], ARGV[12], ARGV[6]
local LANE_TEXT = string.sub(POOL, #ROOT + 6) .. '/' .. LANE
local request = tonumber(ARGV[4])
local kept = call('HMGET', POOL, LANE, 'bar/' .. ARGV[2], 'beat')
local is_barred = kept[2] and tonumber(ARGV[3]) <= tonumber(kept[2])

-- ---------------------------------------------------------------- the straight road
-- A known lane completes a plain job and takes the next plain one: by far the most frequent step. It is written out
-- here, without functions and tables, because making those takes half the time of a step. Nothing is written before
-- all is known to be plain; whatever is not breaks off to the long road below, which is complete. Layouts and letters
-- are those of parts/records.lua.
repeat
  if not kept[1] or is_barred then break end
  local STATE_FORM = '>BBIHHHHdddddH'
  local last, _, _, lease, sign, id_at = struct.unpack('>dBIdI', kept[1])
  if request <= last or (id_at <= #kept[1] and string.sub(kept[1], id_at) ~= JOB) then break end

  -- the next job: of an explicit list the first queue that has one, else the best of the two queues with the lowest
  -- bounds, provided that no third can have a better one
  local queue, id, raw, behind, behind_rank, aged
  if WANT ~= '' then
    if ARGV[7] ~= '0' or ARGV[8] ~= '+inf' then break end
    if call('ZCARD', DUES) > 0 and call('ZRANGEBYSCORE', DUES, '-inf', NOW_TEXT, 'LIMIT', '0', '1')[1] then break end
    if WANT == '=' then
      for listed in string.gmatch(ARGV[11], '[^\31]+') do
        local bound = call('ZSCORE', HEADS, listed)
        local first = bound and call('ZRANGE', ROOT .. 'pending:' .. listed, '0', '0')
        if first and first[1] then
          queue, id, aged = listed, first[1], string.byte(bound) == 45
          break
        end
      end
    else
      local heads, reserved = call('ZRANGE', HEADS, '0', '2', 'WITHSCORES'), ARGV[11]
      queue = heads[1]
      if queue then
        if reserved ~= '' then -- every worker leaves the queue of webhooks out; it seldom has a head
          if string.find(reserved, '\31' .. queue .. '\31', 1, true) then break end
          if heads[3] and string.find(reserved, '\31' .. heads[3] .. '\31', 1, true) then break end
          if heads[5] and string.find(reserved, '\31' .. heads[5] .. '\31', 1, true) then break end
        end
        aged = string.byte(heads[2]) == 45
        local first = call('ZRANGE', ROOT .. 'pending:' .. queue, '0', '0', 'WITHSCORES')
        if not first[1] then break end
        id = first[1]
        if heads[3] and tonumber(first[2]) > tonumber(heads[4]) then
          local second = call('ZRANGE', ROOT .. 'pending:' .. heads[3], '0', '0', 'WITHSCORES')
          if not second[1] then break end
          if tonumber(second[2]) < tonumber(first[2]) then
            queue, id, behind, behind_rank = heads[3], second[1], queue, first[2]
            first = second
          else
            behind, behind_rank = heads[3], second[2]
          end
          if heads[5] and tonumber(first[2]) > tonumber(heads[6]) then break end
        end
      end
    end
    if aged then break end -- a bound below zero: waiting counts here, and the first is not always the next
    if id then
      raw = call('HGET', JOBS, id)
      if not raw or #raw < 28 or string.byte(raw, 1) ~= 0 then break end
      local type_n, queue_n, owner_n, at = struct.unpack('>HHH', raw, 23)
      if owner_n == 65535 then owner_n = 0 end
      if at + type_n + queue_n + owner_n > #raw + 1 then break end
    end
  end

  -- the job that is settled: held by this lane under this claim, completed, without flags, frames, output or children
  local states = call('HMGET', STATE, JOB, id or '')
  if states[2] then break end
  local done, done_queue
  if JOB ~= '' then
    local old = states[1]
    if not old or ARGV[14] ~= 'completed' or ARGV[20] ~= '' or #ARGV > 20 then break end
    local status, flags, claim, retries, kills, losses, misfits, _, claimed, _, _, _, lane_n, at =
      struct.unpack(STATE_FORM, old)
    if status ~= 114 or flags ~= 0 or claim ~= tonumber(ARGV[13]) then break end
    if string.sub(old, at, at + lane_n - 1) ~= LANE_TEXT then break end
    local queue_n, queue_at = struct.unpack('>H', old, at + lane_n)
    if queue_at + queue_n <= #old then break end
    done_queue = string.sub(old, queue_at)
    done = struct.pack(STATE_FORM, 99, 8, claim, retries, kills, losses, misfits, 0, claimed, tonumber(ARGV[18]), NOW,
      NOW, lane_n) .. string.sub(old, at) .. ARGV[19]
    call('LLEN', ROOT .. 'completed:' .. done_queue)
  end
  if id and queue ~= done_queue then call('ZCARD', ROOT .. 'running:' .. queue) end
  call('HLEN', STATS)

  -- from here on it writes; the first write is one that a full store does not refuse
  local settled = 0
  sign = lease > 0 and sign + 1 or tonumber(kept[3] or 0)
  if not id then call('ZREM', HEADS, '') end
  if done then
    call('ZREM', ROOT .. 'running:' .. done_queue, JOB)
    call('RPUSH', ROOT .. 'completed:' .. done_queue, JOB)
    call('HINCRBY', STATS, 'h:' .. string.format('%d', math.floor(NOW / 3600)) .. ':completed', '1')
    settled = 1
  end
  if not id then
    if done then call('HSET', STATE, JOB, done) end
    if lease > 0 then
      call('HDEL', POOL, LANE) -- of an HTTP claim: nobody calls it again
    else
      call('HSET', POOL, LANE, struct.pack('>dBIdI', request, settled, 0, 0, sign))
    end
    do return {0, settled} end
  end
  local pending, bell = ROOT .. 'pending:' .. queue, ROOT .. 'bell:' .. ARGV[9]
  call('ZREM', pending, id)
  local state = struct.pack(STATE_FORM, 114, 0, 1, 0, 0, 0, 0, 0, NOW, 0, 0, NOW, #LANE_TEXT) .. LANE_TEXT
    .. struct.pack('>H', #queue) .. queue
  if done then call('HSET', STATE, JOB, done, id, state) else call('HSET', STATE, id, state) end
  call('ZADD', ROOT .. 'running:' .. queue, NOW_TEXT, id)
  if behind then call('ZADD', HEADS, behind_rank, behind) end
  if pcall_redis('LLEN', bell) == 0 then -- a bell that is rung already needs no look at what is left
    local is_left = call('ZCARD', pending) > 0
    if not is_left then
      call('ZREM', HEADS, queue)
      is_left = call('ZCARD', HEADS) > 0
    end
    if is_left then pcall_redis('RPUSH', bell, '1') end
  end
  call('HSET', POOL, LANE, struct.pack('>dBIdI', request, settled, 1, tonumber(ARGV[10]), sign) .. id)
  do return {0, settled, id, raw, state} end
until true

-- ---------------------------------------------------------------- the long road
local PAST, IDS, QUEUES, UNIQUE = ROOT .. 'past', ROOT .. 'ids', ROOT .. 'queues', ROOT .. 'unique'
local IDEM, IDEM_AT, BELLS = ROOT .. 'idem', ROOT .. 'idem_at', ROOT .. 'bells'
local EXPIRY, POOLS = ROOT .. 'expiry', ROOT .. 'pools'
--! include checks records places limits intake batches endings choosing
local lane = kept[1] and read_lane(kept[1])
local is_new = not lane
lane = lane or {request = 0, settled = 0, claim = 0, lease = 0, sign = 0, id = ''}

-- What the lane entry says it holds, if the store agrees: its state.
local function still_held()
  if lane.id == '' then return nil end
  local s = state_of(lane.id)
  if s and s.status == RUNNING and s.lane == LANE_TEXT and s.claim == lane.claim then return s end
  return nil
end

local function answer(settled)
  if WANT == '' then return {0, settled} end
  if is_barred then return {2, settled} end
  local s = still_held()
  if not s then return {0, settled} end
  return {0, settled, lane.id, call('HGET', JOBS, lane.id), pack_state(s)}
end

if request < lane.request then return {1, lane.request} end
if request == lane.request then
  call('ZREM', HEADS, '') -- never refused, so nothing after it is
  call('HSET', POOL, LANE, kept[1]) -- a write, so that WAITAOF after a lost reply waits for the claim too
  return answer(lane.settled)
end

-- ---------------------------------------------------------------- look first

local held, record = nil, nil

-- The job is waiting under an older claim than the lane's, and requests of this lane are missing here (they come one
-- after the other): a failover lost the claim. Its last holder is believed.
local function adopted()
  if request <= lane.request + 1 or is_barred then return nil end
  local known = state_of(JOB)
  if known and (known.status ~= WAITING or known.claim >= tonumber(ARGV[13])) then return nil end
  record = read_record(call('HGET', JOBS, JOB))
  if not record then return nil end
  local s = known or fresh_state(record.queue)
  s.claim, s.lane = tonumber(ARGV[13]), LANE_TEXT
  return s
end

local function find_held()
  local s = state_of(JOB)
  if not s or s.status == WAITING then
    s = adopted()
    if s then check_queue(s.queue) end
    return s
  end
  if s.status ~= RUNNING or s.lane ~= LANE_TEXT or s.claim ~= tonumber(ARGV[13]) then return nil end
  return s
end

local function check_before_settling()
  call('ZCARD', ROOT .. 'running:' .. held.queue)
  local outcome = ARGV[14]
  local is_plain = outcome == 'completed' and #ARGV <= 20 and not has(held.flags, F_EXTRAS)
  if is_plain then
    count_in('completed:', held.queue)
    return
  end
  record = record or read_record(call('HGET', JOBS, JOB))
  check_queue(held.queue)
  if record then check_follow_ups(record) end
  for at = 21, #ARGV, JOB_ARGS do check_queue(ARGV[at + 1]) end
end

check_all()
if JOB ~= '' then
  held = find_held()
  if held then check_before_settling() end
end

-- ---------------------------------------------------------------- then write
call('ZREM', HEADS, '') -- never refused, so nothing after it is: a full store can always be worked off

local function settle()
  local outcome, reason, delay = ARGV[14], ARGV[15], tonumber(ARGV[16])
  if has(held.flags, F_ALONE) and outcome ~= 'returned' then held.flags = held.flags - F_ALONE end
  local is_cancelled = outcome == 'cancelled' or (has(held.flags, F_CANCEL) and (outcome == 'retried' or outcome == 'returned'))
  if is_cancelled then outcome, reason = 'cancelled', 'cancelled' end
  call('ZREM', ROOT .. 'running:' .. held.queue, JOB)
  if held.status == WAITING then leave_place(JOB, held.queue) end
  held.started = tonumber(ARGV[18])
  held.tail = merge_frames(held.tail, ARGV[19])
  local is_unstarted = outcome == 'returned' and held.started == 0 and ARGV[17] ~= '1'
  if outcome == 'completed' and ARGV[20] == '' then
    held.flags = held.flags + F_PLAIN
  elseif not is_unstarted then -- a claim that never started is no attempt
    local letter = ({completed = 'c', failed = 'f', retried = 'r', returned = 'b', cancelled = 'x'})[outcome]
    remember(JOB, held, letter, ARGV[20])
  end
  if outcome == 'completed' then
    finish(JOB, held, COMPLETED, nil, record)
  elseif outcome == 'failed' then
    finish(JOB, held, FAILED, reason, record)
  elseif outcome == 'cancelled' then
    finish(JOB, held, CANCELLED, reason, record)
  elseif not record then
    finish(JOB, held, FAILED, 'invalid_record', nil)
  else
    if outcome == 'retried' then
      held.retries = held.retries + 1
      count('retried')
    end
    if ARGV[17] == '1' then held.misfits = held.misfits + 1 end
    put_back(JOB, held, record, delay)
  end
end

local function admit_children()
  for at = 21, #ARGV, JOB_ARGS do
    admit(ARGV[at], ARGV[at + 1], tonumber(ARGV[at + 2]), ARGV[at + 3], ARGV[at + 4])
  end
end

-- Give the job to the lane; returns id, record, state as the answer has them.
local function hand_out(queue, id, raw, found, s)
  s = s or fresh_state(queue)
  if found.run_at > 0 or s.due > 0 then call('ZREM', ROOT .. 'late:' .. queue, id) end
  s.status, s.lane, s.claim, s.claimed, s.queue = RUNNING, LANE_TEXT, s.claim + 1, NOW, queue
  if s.tail ~= '' then
    local frames = read_frames(s.tail)
    frames.p, frames.n = nil, nil -- progress and note are this run's own
    s.tail = write_frames(frames)
  end
  if found.extras ~= '' or found.expires_at > 0 then
    if not has(s.flags, F_EXTRAS) then s.flags = s.flags + F_EXTRAS end
  end
  call('ZADD', ROOT .. 'running:' .. queue, NOW_TEXT, id)
  lane.id, lane.claim, lane.lease = id, s.claim, tonumber(ARGV[10])
  return {id, raw, save_state(id, s)}
end

-- After a hand-out: an empty queue loses its head, work that is left wakes the next of the same class.
local function look_back(queue)
  if call('ZCARD', ROOT .. 'pending:' .. queue) == 0 then
    call('ZREM', HEADS, queue)
    if call('ZCARD', HEADS) > 0 then ring(ARGV[9]) end
  else
    ring(ARGV[9])
  end
end

local function try_next(want)
  local queue, id = choose(want)
  if not id then return correct_bounds(want) end
  call('ZREM', ROOT .. 'pending:' .. queue, id)
  correct_bounds(want, queue)
  local raw = call('HGET', JOBS, id)
  local found, s = read_record(raw), state_of(id)
  if not found then
    set_aside(id, queue)
    return true
  end
  if is_expired(found) then
    end_waiting(id, queue, s, found, CANCELLED, 'expired')
    return true
  end
  local key = limit_of_record(found)
  if key and not take_room(key, id) then
    hold(id, queue, rank_of(found.priority, found.seq), key)
    return true
  end
  local handed = hand_out(queue, id, raw, found, s)
  look_back(queue)
  return handed
end

local function claim()
  promote(PROMOTE_IN_CLAIM)
  announce()
  local want = read_want(WANT, ARGV[7], ARGV[8], ARGV[11])
  for _ = 1, MAX_SKIPS do
    local found = try_next(want)
    if found ~= true then return found end
  end
  return nil
end

local settled = 0
if JOB ~= '' then settled = held and 1 or 2 end
if held then
  settle()
  admit_children()
  if lane.id == JOB then lane.id = '' end
end

local handed = nil
local same = WANT ~= '' and not is_barred and still_held()
if same then
  handed = {lane.id, call('HGET', JOBS, lane.id), pack_state(same)}
elseif WANT ~= '' and not is_barred then
  lane.id = ''
  handed = claim()
end
announce()

local is_leased = lane.lease > 0 or (tonumber(ARGV[10]) or 0) > 0
lane.request, lane.settled = request, settled
lane.sign = is_leased and lane.sign + 1 or tonumber(kept[3] or 0)
if is_leased and lane.id == '' then
  call('HDEL', POOL, LANE) -- of an HTTP claim: nobody calls it again
else
  call('HSET', POOL, LANE, pack_lane(lane))
end
if is_new and is_leased then
  local pool = string.sub(POOL, #ROOT + 6)
  if lane.id ~= '' and not call('ZSCORE', POOLS, pool) then call('ZADD', POOLS, NOW_TEXT, pool) end
elseif is_new then
  call('HSET', POOL, 'mark/' .. string.match(LANE, '^[^/]+'), ARGV[5])
  local pool = string.sub(POOL, #ROOT + 6)
  if not call('ZSCORE', POOLS, pool) then call('ZADD', POOLS, NOW_TEXT, pool) end
end
if is_barred and WANT ~= '' then return {2, settled} end
if handed then return {0, settled, handed[1], handed[2], handed[3]} end
return {0, settled}
