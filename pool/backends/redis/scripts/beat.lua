-- One heartbeat of a pool, and the comparing of notes.
-- KEYS 1-14 as in parts/keys.lua, 15 pool:<pool>
-- ARGV 1 lease seconds  2 mark of the supervisor  3 facts (JSON)  4 on: lane, job id, claim of each thing held
-- Returns {lost, cancelled, unknown}: lost and cancelled hold positions (from 1) of the things held;
--      unknown holds {lane, job id, claim}.
--! include keys checks records places limits choosing
local POOL = KEYS[15]
local POOL_TEXT = string.sub(POOL, #ROOT + 6)
local entries = call('HGETALL', POOL)
local fields = {}
for at = 1, #entries, 2 do fields[entries[at]] = entries[at + 1] end

-- Why a held thing cannot be adopted again: nil if it can; else its state, record.
local function lost_claim(id, claim)
  local s = state_of(id)
  if s and (s.status ~= WAITING or s.claim >= claim) then return nil end
  local record = read_record(call('HGET', JOBS, id))
  if not record then return nil end
  return s or fresh_state(record.queue), record
end

local function is_barred(lane)
  local slot, generation = string.match(lane, '^(%d+)%.(%d+)/')
  local bar = fields['bar/' .. slot]
  return bar and tonumber(generation) <= tonumber(bar)
end

check_all()
for at = 4, #ARGV, 3 do
  local s = lost_claim(ARGV[at + 1], tonumber(ARGV[at + 2]))
  if s then check_queue(s.queue) end
end

call('ZREM', HEADS, '') -- never refused: a pool must be able to renew in a full store
call('HINCRBY', POOL, 'beat', 1)
call('HSET', POOL, 'lease', ARGV[1], 'mark', ARGV[2], 'at', string.format('%.6f', NOW))
call('HDEL', POOL, 'lost')
if fields['facts'] ~= ARGV[3] then call('HSET', POOL, 'facts', ARGV[3]) end
call('ZADD', POOLS, NOW_TEXT, POOL_TEXT)

local function adopt(lane_name, id, claim, s, record)
  leave_place(id, s.queue)
  local key = limit_of_record(record)
  if key then enter_limit(id, s.queue, key) end
  local has_extras = record.extras ~= '' or record.expires_at > 0
  if has_extras and not has(s.flags, F_EXTRAS) then s.flags = s.flags + F_EXTRAS end
  s.status, s.lane, s.claim, s.claimed = RUNNING, POOL_TEXT .. '/' .. lane_name, claim, NOW
  count_running(s.queue, '1')
  save_state(id, s)
  local lane = fields[lane_name] and read_lane(fields[lane_name])
    or {request = 0, settled = 0, claim = 0, lease = 0, sign = 0, id = ''}
  lane.id, lane.claim = id, claim
  call('HSET', POOL, lane_name, pack_lane(lane))
end

local lost, cancelled, unknown, on_board = {}, {}, {}, {}
for at = 4, #ARGV, 3 do
  local lane_name, id, claim = ARGV[at], ARGV[at + 1], tonumber(ARGV[at + 2])
  local position = (at - 4) / 3 + 1
  on_board[lane_name .. ' ' .. id] = true
  local s = state_of(id)
  if s and s.status == RUNNING and s.claim == claim and s.lane == POOL_TEXT .. '/' .. lane_name then
    if has(s.flags, F_CANCEL) then cancelled[#cancelled + 1] = position end
  else
    local found, record
    if not is_barred(lane_name) then found, record = lost_claim(id, claim) end
    if found then adopt(lane_name, id, claim, found, record) else lost[#lost + 1] = position end
  end
end

for name, raw in pairs(fields) do
  if string.find(name, '^%d+%.%d+/%d+$') then
    local lane = read_lane(raw)
    if lane.id ~= '' and lane.lease == 0 and not on_board[name .. ' ' .. lane.id] then
      local s = state_of(lane.id)
      local is_held = s and s.status == RUNNING and s.claim == lane.claim and s.lane == POOL_TEXT .. '/' .. name
      local beats = tonumber(fields['beat'] or 0) + 1 - lane.sign -- since the claim: a stepped clock alone proves nothing
      if is_held and beats >= 2 and NOW - s.claimed > tonumber(ARGV[1]) / 3 then
        unknown[#unknown + 1] = {name, lane.id, string.format('%d', lane.claim)}
      end
    end
  end
end
announce()
return {lost, cancelled, unknown}
