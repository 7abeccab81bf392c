-- What a running job says of itself; also renews the holder's own lease.
-- KEYS 1-14 as in parts/keys.lua, 15 pool:<pool> of the lane
-- ARGV 1 lane  2 job id  3 claim  4 frames for the job ("" = only a sign of life)
-- Returns 0 held, 1 held and a cancel was asked for, 2 the claim is lost (nothing changed).
--! include keys records
local POOL = KEYS[15]
local raw_lane = call('HGET', POOL, ARGV[1])
local s = state_of(ARGV[2])
local text = string.sub(POOL, #ROOT + 6) .. '/' .. ARGV[1]
if not s or s.status ~= RUNNING or s.lane ~= text or s.claim ~= tonumber(ARGV[3]) then return 2 end
call('ZREM', HEADS, '')
if ARGV[4] ~= '' then
  s.tail = merge_frames(s.tail, ARGV[4])
  save_state(ARGV[2], s)
end
if raw_lane then
  local lane = read_lane(raw_lane)
  if lane.lease > 0 then lane.sign = lane.sign + 1 end
  call('HSET', POOL, ARGV[1], pack_lane(lane))
end
return has(s.flags, F_CANCEL) and 1 or 0
