-- Settle what a lane held and hand out the next job, in one step.
-- KEYS 1 pool:<pool> of the lane; all others have the same hash tag, and each is looked at before the first write
-- ARGV 1 what is the same in each call of a lane (work.py): generation, then texts with their lengths: the
--      root of the keys, the lane ("slot.generation/lane"), "bar/<slot>", the lane as a state has it (>H length, text);
--      want: "" none, "*" or "="; "?" and one of these if it leaves out priorities or has a lease; names of queues between
--      unit separators; bell:<class>; then what is seldom needed, between unit separators: mark of the process, lowest
--      rank, highest rank, lease seconds (0: the pool's)
--      2 >d request, and of a plain completion: job id, claim, started_at, frames for the job (>c16Id, the rest)
--      3 any other settlement, if there is one: job id, claim, started_at, outcome, reason, delay, misfit (0/1), frames for
--      the job, frames for the attempt (kept if not "" or not completed), then the children, 5 each
-- Returns after a first claim mostly a text, >Bdc16 settled, time of the claim, id, and the record: a list takes the server
--      and the worker a microsecond more. Else {verdict, settled, ...}: verdict 0 fine, 1 refused (then the last request),
--      2 barred; settled 0 none, 1 yes, 2 lost, and 4 more if this is the answer to a number that was asked before; then,
--      if there is a claim, id, record, state.
-- Few arguments: the server takes three times as long for one as Lua takes to cut it from a longer one.
local call, pcall_redis = redis.call, redis.pcall
local read, sub = struct.unpack, string.sub
local POOL, WORD = KEYS[1], ARGV[2]
local GENERATION, ROOT, LANE, BAR, LANE_WORDS, WANT, LISTED, BELL, SELDOM_AT = read('>IHc0Hc0Hc0Hc0Hc0Ic0Ic0', ARGV[1])
local JOBS, STATE, HEADS, DUES, STATS = ROOT .. 'jobs', ROOT .. 'state', ROOT .. 'heads', ROOT .. 'dues', ROOT .. 'stats'
local kept = call('HMGET', POOL, LANE, BAR, 'beat')
local entry = kept[1]
local is_barred = kept[2] and GENERATION <= kept[2] + 0
local clock = call('TIME')
local NOW = clock[1] + clock[2] / 1000000
local request, JOB, CLAIM, STARTED, FRAMES_AT = read(#WORD > 8 and '>dc16Ic8' or '>d', WORD)
if #WORD == 8 then JOB = nil end -- what comes after the last field is where it ends

-- ---------------------------------------------------------------- the straight road
-- A known lane completes a plain job and takes the next plain one: by far the most frequent step. It is written out
-- here, without functions and tables, and with as few texts as can be: each text that Lua makes or is given is hashed,
-- looked up and swept away later, and that is what most of a step's time goes into. A text that is joined from pieces
-- costs a third of a packed one. Nothing is written before all is known to be plain; whatever is not breaks off to the
-- long road below, which is complete. Layouts and letters are those of parts/records.lua.
local NONE = '\0\0\0\0\0\0\0\0' -- a time that is not
repeat
  if not entry or #entry < 25 or is_barred or #ARGV > 2 then break end
  local last, _, _, lease, _, id_at = read('>dBIdI', entry)
  if request <= last or lease > 0 then break end
  local job = JOB
  if id_at <= #entry and sub(entry, id_at) ~= job then break end

  -- the next job: of an explicit list the first queue that has one, else the best of the two queues with the lowest
  -- bounds, provided that no third can have a better one
  local queue, id, raw, pending, behind, behind_rank
  if WANT ~= '' then
    if call('ZCARD', DUES) > 0 and call('ZRANGEBYSCORE', DUES, '-inf', NOW, 'LIMIT', '0', '1')[1] then break end
    local ageing = call('HGET', STATS, 'ageing')
    if ageing and tonumber(ageing) ~= 0 then break end -- waiting counts here: the first is not always the next
    if WANT == '=' then
      for listed in string.gmatch(LISTED, '[^\31]+') do
        if call('ZSCORE', HEADS, listed) then
          pending = ROOT .. 'pending:' .. listed
          local first = call('ZRANGE', pending, '0', '0')
          if first[1] then
            queue, id = listed, first[1]
            break
          end
        end
      end
    elseif WANT == '*' then
      local heads = call('ZRANGE', HEADS, '0', '2')
      queue = heads[1]
      if queue then
        local reserved = LISTED -- every worker leaves the queue of webhooks out; it seldom has a head
        if string.find(reserved, queue, 1, true) and string.find(reserved, '\31' .. queue .. '\31', 1, true) then break end
        pending = ROOT .. 'pending:' .. queue
        local second = heads[2]
        if not second then
          id = call('ZRANGE', pending, '0', '0')[1]
          if not id then break end
        else
          local third = heads[3]
          if string.find(reserved, '\31' .. second .. '\31', 1, true) then break end
          if third and string.find(reserved, '\31' .. third .. '\31', 1, true) then break end
          local first = call('ZRANGE', pending, '0', '0', 'WITHSCORES')
          local bounds = call('ZRANGE', HEADS, '1', '2', 'WITHSCORES')
          id = first[1]
          if not id then break end
          if tonumber(first[2]) > tonumber(bounds[2]) then
            local other = ROOT .. 'pending:' .. second
            local rival = call('ZRANGE', other, '0', '0', 'WITHSCORES')
            if not rival[1] then break end
            if tonumber(rival[2]) < tonumber(first[2]) then
              queue, id, pending, behind, behind_rank = second, rival[1], other, queue, first[2]
              first = rival
            else
              behind, behind_rank = second, rival[2]
            end
            if third and tonumber(first[2]) > tonumber(bounds[4]) then break end
          end
        end
      end
    else
      break
    end
    if id then
      raw = call('HGET', JOBS, id)
      local flags = raw and #raw >= 32 and string.byte(raw)
      if flags ~= 0 and flags ~= 2 then break end
      local type_n, queue_n, owner_n, at = read('>HHH', raw, 23)
      local extras_n = 0
      if flags == 2 then extras_n, at = read('>I', raw, at) end
      if owner_n == 65535 then owner_n = 0 end
      at = at + type_n + queue_n + owner_n
      local ends = at + extras_n
      if ends > #raw + 1 then break end
      while at + 4 < ends do -- of extras only a timeout (T) and a parent (P) are plain: nobody has to be paid for them
        local tag = string.byte(raw, at)
        if tag ~= 84 and tag ~= 80 then break end
        extras_n, at = read('>I', raw, at + 1)
        at = at + extras_n
      end
      if at ~= ends then break end
    end
  end

  -- the job that is settled: held by this lane under this claim, completed, without flags or frames. Where it stood is
  -- mostly where the next one stands.
  local states = (job or id) and call('HMGET', STATE, job or id, id or job)
  if id and states[2] then break end
  local where = id and LANE_WORDS .. struct.pack('>H', #queue) .. queue
  local done, done_queue
  local now = struct.pack('>d', NOW)
  if job then
    local old = states[1]
    if not old or #old < 56 + #LANE_WORDS then break end
    local status, flags, claim, _, _, _, _, due = read('>BBIHHHHd', old)
    if status ~= 114 or flags ~= 0 or claim ~= CLAIM then break end
    local stood = sub(old, 55)
    if stood == where then
      done_queue = queue
    else
      if sub(stood, 1, #LANE_WORDS) ~= LANE_WORDS then break end
      local queue_n, queue_at = read('>H', stood, #LANE_WORDS + 1)
      if queue_at + queue_n ~= #stood + 1 then break end
      done_queue = sub(stood, queue_at)
    end
    -- completed, plain; claim, counts, due, claimed as they were; finished and updated now
    local counts = due == 0 and sub(old, 3, 30) or sub(old, 3, 14) .. NONE .. sub(old, 23, 30)
    done = 'c\8' .. counts .. STARTED .. now .. now .. stood .. sub(WORD, FRAMES_AT)
  end
  local completed = done and ROOT .. 'completed:' .. done_queue
  if WANT == '' then call('HLEN', STATS) end

  -- from here on it writes; where the first write is refused (a full store, a broken key) nothing has been done yet
  local settled = 0
  if not done then
    call('ZREM', HEADS, '') -- never refused, so nothing after it is
  else
    if type(pcall_redis('RPUSH', completed, job)) == 'table' then break end
    local counter = 'h:' .. (NOW - NOW % 3600) / 3600 .. ':completed'
    if type(pcall_redis('HINCRBY', STATS, counter, '1')) == 'table' then call('HSET', STATS, counter, '1') end
    settled = 1
  end
  if done_queue ~= queue then -- running jobs are only counted; mostly one goes and one comes
    local field
    if done then
      field = 'r:' .. done_queue
      if type(pcall_redis('HINCRBY', STATS, field, '-1')) == 'table' then call('HSET', STATS, field, '0') end
    end
    if id then
      field = 'r:' .. queue
      if type(pcall_redis('HINCRBY', STATS, field, '1')) == 'table' then call('HSET', STATS, field, '1') end
    end
  end
  local sign = kept[3] or 0
  if not id then
    if done then call('HSET', STATE, job, done) end
    call('HSET', POOL, LANE, struct.pack('>dBIdI', request, settled, 0, 0, sign))
    do return {0, settled} end
  end
  call('ZREM', pending, id)
  local state = 'r\0\0\0\0\1' .. NONE .. NONE .. now .. NONE .. NONE .. now .. where -- its first claim
  if done then call('HSET', STATE, job, done, id, state) else call('HSET', STATE, id, state) end
  if behind then call('ZADD', HEADS, behind_rank, behind) end
  if pcall_redis('LLEN', BELL) == 0 then -- a bell that is rung already needs no look at what is left
    local is_left = call('ZCARD', pending) > 0
    if not is_left then
      call('ZREM', HEADS, queue)
      is_left = call('ZCARD', HEADS) > 0
    end
    if is_left then pcall_redis('RPUSH', BELL, '1') end
  end
  call('HSET', POOL, LANE, struct.pack('>dBIdIc0', request, settled, 1, 0, sign, id))
  do return (done and '\1' or '\0') .. now .. id .. raw end
until true

-- ---------------------------------------------------------------- the long road
local LANE_TEXT = string.sub(LANE_WORDS, 3)
local NOW_TEXT = clock[1] .. '.' .. string.sub('000000' .. clock[2], -6)
local CLASS = string.sub(BELL, #ROOT + 6)
local SELDOM = {string.match(sub(ARGV[1], SELDOM_AT), '^([^\31]*)\31([^\31]*)\31([^\31]*)\31([^\31]*)$')} -- a table: Lua has room for 200 locals
local LEASE = tonumber(SELDOM[4]) or 0
WANT = string.gsub(WANT, '^%?', '')
local CHILDREN = 12 -- the first of them in ARGV
local OUTCOME, REASON, DELAY, MISFIT, FRAMES, TAIL = 'completed', '', 0, '0', '', ''
if JOB then
  STARTED, FRAMES = read('>d', STARTED), sub(WORD, FRAMES_AT)
else
  JOB, CLAIM, STARTED, OUTCOME, REASON, DELAY, MISFIT, FRAMES, TAIL = unpack(ARGV, 3, 11)
  JOB, CLAIM, STARTED, DELAY = JOB or '', tonumber(CLAIM), tonumber(STARTED), tonumber(DELAY)
end
local PAST, IDS, QUEUES, UNIQUE = ROOT .. 'past', ROOT .. 'ids', ROOT .. 'queues', ROOT .. 'unique'
local IDEM, IDEM_AT, BELLS = ROOT .. 'idem', ROOT .. 'idem_at', ROOT .. 'bells'
local EXPIRY, POOLS = ROOT .. 'expiry', ROOT .. 'pools'
--! include checks ids records places limits intake batches endings choosing
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
  local again = answer(lane.settled)
  again[2] = again[2] + 4
  return again
end

-- ---------------------------------------------------------------- look first

local held, record = nil, nil

-- The job is waiting under an older claim than the lane's, and requests of this lane are missing here (they come one
-- after the other): a failover lost the claim. Its last holder is believed.
local function adopted()
  if request <= lane.request + 1 or is_barred then return nil end
  local known = state_of(JOB)
  if known and (known.status ~= WAITING or known.claim >= CLAIM) then return nil end
  record = read_record(call('HGET', JOBS, JOB))
  if not record then return nil end
  local s = known or fresh_state(record.queue)
  s.claim, s.lane = CLAIM, LANE_TEXT
  return s
end

local function find_held()
  local s = state_of(JOB)
  if not s or s.status == WAITING then
    s = adopted()
    if s then check_queue(s.queue) end
    return s
  end
  if s.status ~= RUNNING or s.lane ~= LANE_TEXT or s.claim ~= CLAIM then return nil end
  return s
end

local function check_before_settling()
  local outcome = OUTCOME
  local is_plain = outcome == 'completed' and #ARGV < CHILDREN and not has(held.flags, F_EXTRAS)
  if is_plain then
    count_in('completed:', held.queue)
    return
  end
  record = record or read_record(call('HGET', JOBS, JOB))
  check_queue(held.queue)
  if record then check_follow_ups(record) end
  for at = CHILDREN, #ARGV, JOB_ARGS do check_queue(ARGV[at + 1]) end
end

check_all()
if JOB ~= '' then
  held = find_held()
  if held then check_before_settling() end
end

-- ---------------------------------------------------------------- then write
call('ZREM', HEADS, '') -- never refused, so nothing after it is: a full store can always be worked off

local function settle()
  local outcome, reason, delay = OUTCOME, REASON, DELAY
  if has(held.flags, F_ALONE) and outcome ~= 'returned' then held.flags = held.flags - F_ALONE end
  local is_cancelled = outcome == 'cancelled' or (has(held.flags, F_CANCEL) and (outcome == 'retried' or outcome == 'returned'))
  if is_cancelled then outcome, reason = 'cancelled', 'cancelled' end
  if held.status == WAITING then leave_place(JOB, held.queue) else count_running(held.queue, '-1') end
  held.started = STARTED
  held.tail = merge_frames(held.tail, FRAMES)
  local is_unstarted = outcome == 'returned' and held.started == 0 and MISFIT ~= '1'
  if outcome == 'completed' and TAIL == '' then
    held.flags = held.flags + F_PLAIN
  elseif not is_unstarted then -- a claim that never started is no attempt
    local letter = ({completed = 'c', failed = 'f', retried = 'r', returned = 'b', cancelled = 'x'})[outcome]
    remember(JOB, held, letter, TAIL)
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
    if MISFIT == '1' then held.misfits = held.misfits + 1 end
    put_back(JOB, held, record, delay)
  end
end

local function admit_children()
  for at = CHILDREN, #ARGV, JOB_ARGS do
    admit(ARGV[at], ARGV[at + 1], tonumber(ARGV[at + 2]), ARGV[at + 3], ARGV[at + 4])
  end
end

-- Whether somebody has to be paid when the job ends: anything but a timeout (T) and a parent (P).
local function owes(found)
  if found.extras == '' then return false end
  for tag in pairs(read_frames(found.extras)) do
    if tag ~= 'T' and tag ~= 'P' then return true end
  end
  return false
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
  if owes(found) or found.expires_at > 0 then
    if not has(s.flags, F_EXTRAS) then s.flags = s.flags + F_EXTRAS end
  end
  count_running(queue, '1')
  lane.id, lane.claim, lane.lease = id, s.claim, LEASE
  return {id, raw, save_state(id, s)}
end

-- After a hand-out: an empty queue loses its head, work that is left wakes the next of the same class.
local function look_back(queue)
  if call('ZCARD', ROOT .. 'pending:' .. queue) == 0 then
    call('ZREM', HEADS, queue)
    if call('ZCARD', HEADS) > 0 then ring(CLASS) end
  else
    ring(CLASS)
  end
end

local function try_next(want)
  local queue, id = choose(want)
  if not id then return correct_bounds(want) end
  call('ZREM', ROOT .. 'pending:' .. queue, id)
  correct_bounds(want, queue)
  local raw = call('HGET', JOBS, id)
  local found, s, is_spoilt = read_record(raw), state_of(id)
  if not found or is_spoilt then
    set_aside(id, queue, found)
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
  local want = read_want(WANT, SELDOM[2], SELDOM[3], LISTED)
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

local is_leased = lane.lease > 0 or LEASE > 0
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
  call('HSET', POOL, 'mark/' .. string.match(LANE, '^[^/]+'), SELDOM[1])
  local pool = string.sub(POOL, #ROOT + 6)
  if not call('ZSCORE', POOLS, pool) then call('ZADD', POOLS, NOW_TEXT, pool) end
end
if is_barred and WANT ~= '' then return {2, settled} end
if handed then return {0, settled, handed[1], handed[2], handed[3]} end
return {0, settled}
