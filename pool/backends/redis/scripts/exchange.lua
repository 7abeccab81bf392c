-- Settle what a lane held and hand out the next job, in one step.
-- KEYS 1-14 as in parts/keys.lua, 15 pool:<pool> of the lane
-- ARGV 1 lane ("slot.generation/lane")  2 slot  3 generation  4 request  5 mark of the process ("" none)
--      6 want: "" none, "*" or "="  7 lowest rank  8 highest rank  9 class (its bell)  10 lease seconds (0: the pool's)
--      11 names of queues between unit separators
--      12 job id ("" = nothing to settle)  13 claim  14 outcome  15 reason  16 delay  17 misfit (0/1)  18 started_at
--      19 frames for the job  20 frames for the attempt (kept if not "" or not completed)  21 on: children, 5 each
-- Returns {verdict, settled, ...}: verdict 0 fine, 1 refused (then the last request), 2 barred;
--      settled 0 none, 1 yes, 2 lost; then id, record, state of the claim if there is one.
--! include keys records places intake endings choosing
local POOL = KEYS[15]
local LANE = ARGV[1]
local LANE_TEXT = string.sub(POOL, #ROOT + 6) .. '/' .. LANE
local request = tonumber(ARGV[4])

local kept = call('HMGET', POOL, LANE, 'bar/' .. ARGV[2])
local lane = kept[1] and read_lane(kept[1])
local is_new = not lane
local is_barred = kept[2] and tonumber(ARGV[3]) <= tonumber(kept[2])
lane = lane or {request = 0, settled = 0, claim = 0, lease = 0, renewals = 0, id = ''}

-- What the lane entry says it holds, if the store agrees: its state.
local function still_held()
  if lane.id == '' then return nil end
  local s = state_of(lane.id)
  if s and s.status == RUNNING and s.lane == LANE_TEXT and s.claim == lane.claim then return s end
  return nil
end

local function answer(settled)
  if is_barred and ARGV[6] ~= '' then return {2, settled} end
  local s = still_held()
  if not s then return {0, settled} end
  return {0, settled, lane.id, call('HGET', JOBS, lane.id), pack_state(s)}
end

if request < lane.request then return {1, lane.request} end
if request == lane.request then
  call('HSET', POOL, LANE, kept[1]) -- a write, so that WAITAOF after a lost reply waits for the claim too
  return answer(lane.settled)
end

-- ---------------------------------------------------------------- look first

local JOB, WANT = ARGV[12], ARGV[6]
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

local SETTLED_IN = {completed = 'completed:', failed = 'failed:', cancelled = 'cancelled:'}
local function check_before_settling()
  call('ZCARD', ROOT .. 'running:' .. held.queue)
  local outcome = ARGV[14]
  local is_plain = outcome == 'completed' and #ARGV <= 20 and not has(held.flags, F_EXTRAS)
  if is_plain then
    call('ZCARD', ROOT .. 'completed:' .. held.queue)
    if ARGV[20] ~= '' then call('HLEN', PAST) end
    return
  end
  record = record or read_record(call('HGET', JOBS, JOB))
  check_all()
  check_queue(held.queue)
  if record then check_follow_ups(record) end
  for at = 21, #ARGV, JOB_ARGS do check_queue(ARGV[at + 1]) end
end

call('HLEN', STATS)
call('HLEN', JOBS)
if JOB ~= '' then
  held = find_held()
  if held then check_before_settling() end
end
if WANT ~= '' then
  call('ZCARD', DUES)
  call('ZCARD', EXPIRY)
end
if is_new then call('ZCARD', POOLS) end

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
  if outcome == 'completed' and ARGV[20] == '' then
    held.flags = held.flags + F_PLAIN
  else
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
  if found.extras ~= '' or found.expires_at > 0 then
    if not has(s.flags, F_EXTRAS) then s.flags = s.flags + F_EXTRAS end
  end
  call('ZADD', ROOT .. 'running:' .. queue, NOW, id)
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

lane.request, lane.settled, lane.renewals = request, settled, lane.renewals + 1
call('HSET', POOL, LANE, pack_lane(lane))
if is_new then
  call('HSET', POOL, 'mark/' .. string.match(LANE, '^[^/]+'), ARGV[5])
  local pool = string.sub(POOL, #ROOT + 6)
  if not call('ZSCORE', POOLS, pool) then call('ZADD', POOLS, NOW, pool) end
end
if is_barred and WANT ~= '' then return {2, settled} end
if handed then return {0, settled, handed[1], handed[2], handed[3]} end
return {0, settled}
