-- Take back what a departed worker, a lost pool or a silent holder held, and bar it.
-- KEYS 1-14 as in parts/keys.lua, 15 pool:<pool>
-- ARGV 1 mode: "worker", "pool" or "holder"  2 "slot.generation" (worker), lane (holder), "" (pool)
--      3 the counter that was seen (pool: beats, holder: renewals; "" = do not compare)  4 bar (0/1)
--      5 reason  6 board lost (0/1)  7 frames of the cause for the attempt  8 frames for the job (its error)
--      9 lanes to take ("" = all, else " 0  2 "; " 2=claim=job ": only if it holds this)  10 forget the pool afterwards (0/1)
--      11 on, 10 for each lane of which something is known: lane, started claim, frames of its output, job of that claim
--      ("" = any), then what completed there and was not handed in: claim ("" = nothing), job, started_at, its frames,
--      then the claim ("" = any) and job that alone are meant
-- Returns {moved on (0/1), recovered...}: each {id, status, worker, reason}; moved on = the counter has changed.
--! include keys checks ids records places limits intake batches endings losses choosing
local POOL = KEYS[15]
local POOL_TEXT = string.sub(POOL, #ROOT + 6)
local MODE, WHO, SEEN, REASON = ARGV[1], ARGV[2], ARGV[3], ARGV[5]
local BOARD_LOST = ARGV[6] == '1'
local fields = {}
if MODE == 'worker' and ARGV[9] ~= '' and ARGV[4] ~= '1' then -- some lanes of one that lives on: the others are many
  local names = {}
  for number in string.gmatch(ARGV[9], ' (%d+)[ =]') do names[#names + 1] = WHO .. '/' .. number end
  local found = names[1] and call('HMGET', POOL, unpack(names)) or {}
  for n, entry in ipairs(found) do fields[names[n]] = entry or nil end
else
  local entries = call('HGETALL', POOL)
  for at = 1, #entries, 2 do fields[entries[at]] = entries[at + 1] end
end

local function has_moved_on()
  if SEEN == '' then return false end
  if MODE == 'pool' then return (fields['beat'] or '0') ~= SEEN end
  local raw = fields[WHO]
  return not raw or string.format('%d', read_lane(raw).sign) ~= SEEN
end
if has_moved_on() then return {1} end

local started, output, started_job, finished, meant = {}, {}, {}, {}, {}
for at = 11, #ARGV, 10 do
  started[ARGV[at]], output[ARGV[at]], started_job[ARGV[at]] = tonumber(ARGV[at + 1]), ARGV[at + 2], ARGV[at + 3]
  if ARGV[at + 4] ~= '' then
    finished[ARGV[at]] = {claim = tonumber(ARGV[at + 4]), id = ARGV[at + 5], started = tonumber(ARGV[at + 6]), tail = ARGV[at + 7]}
  end
  if ARGV[at + 8] ~= '' then meant[ARGV[at]] = {claim = tonumber(ARGV[at + 8]), id = ARGV[at + 9]} end
end

local function is_meant(worker, lane_number, lane)
  local only = meant[lane_number]
  if only and (only.claim ~= lane.claim or only.id ~= lane.id) then return false end
  if MODE == 'holder' then return worker .. '/' .. lane_number == WHO end
  if MODE == 'pool' then return ARGV[10] == '1' or lane.lease == 0 end
  if worker ~= WHO then return false end
  if ARGV[9] == '' or string.find(ARGV[9], ' ' .. lane_number .. ' ', 1, true) then return true end
  local claim = string.format(' %s=%d=', lane_number, lane.claim) .. lane.id .. ' '
  return string.find(ARGV[9], claim, 1, true) ~= nil
end

-- Claim numbers count the claims of one job: the number alone may be that of the job the lane held before.
local function is_started(number, lane)
  if BOARD_LOST then return true end
  local job = started_job[number]
  return started[number] ~= nil and started[number] >= lane.claim and (job == '' or job == lane.id)
end

-- The word that the lane left, if it is about this very claim of this job.
local function word_of(number, lane)
  local word = finished[number]
  if word and word.claim == lane.claim and word.id == lane.id then return word end
  return nil
end

local is_worker = MODE == 'worker'
local gone, shared, bars = {}, 0, {}
for name, raw in pairs(fields) do
  local worker, number = string.match(name, '^(%d+%.%d+)/(%d+)$')
  local lane = worker and read_lane(raw)
  if lane and is_meant(worker, number, lane) then
    local s, record = held_by(lane, POOL_TEXT .. '/' .. name)
    local has_started, word = is_started(number, lane), s and word_of(number, lane)
    gone[#gone + 1] = {name = name, lane = lane, s = s, record = record, started = has_started, number = number, word = word}
    if s and has_started and not word then shared = shared + 1 end
    if s then check_queue(s.queue) end
    if record then check_follow_ups(record) end
    if not is_worker then
      local slot, generation = string.match(worker, '^(%d+)%.(%d+)$')
      bars[slot] = math.max(bars[slot] or 0, tonumber(generation))
    end
  end
end
if is_worker then
  local slot, generation = string.match(WHO, '^(%d+)%.(%d+)$')
  bars[slot] = tonumber(generation)
end
table.sort(gone, function(one, other) return one.name < other.name end)
check_all()

call('ZREM', HEADS, '') -- never refused, so nothing after it is
local answer = {0}
for _, each in ipairs(gone) do
  if each.word then
    answer[#answer + 1] = complete(each.lane.id, each.s, each.record, each.word, output[each.number] or '')
  elseif each.s then
    local tail = ARGV[7] .. (output[each.number] or '')
    local loss = {reason = REASON, board_lost = BOARD_LOST, shared = shared > 1, tail = tail, error = ARGV[8]}
    answer[#answer + 1] = take_back(each.lane.id, each.s, each.record, each.started, loss)
  end
  if ARGV[4] == '1' or MODE == 'holder' then
    call('HDEL', POOL, each.name)
  else
    each.lane.id = ''
    call('HSET', POOL, each.name, pack_lane(each.lane))
  end
end

local has_risen = false
if ARGV[4] == '1' then
  for slot, generation in pairs(bars) do
    local known = tonumber(fields['bar/' .. slot] or -1)
    if generation > known then
      call('HSET', POOL, 'bar/' .. slot, generation)
      has_risen = true
    end
  end
  if is_worker then call('HDEL', POOL, 'mark/' .. WHO) end
end
if is_worker and has_risen and REASON == 'worker_lost' then count('deaths') end
if MODE == 'pool' then call('HSET', POOL, 'lost', string.format('%.6f', NOW)) end
if ARGV[10] == '1' then
  call('DEL', POOL)
  call('ZREM', POOLS, POOL_TEXT)
elseif is_worker and not fields['beat'] and not call('ZSCORE', POOLS, POOL_TEXT) and has_risen then
  call('ZADD', POOLS, NOW_TEXT, POOL_TEXT)
end
announce()
return answer
