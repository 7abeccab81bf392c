-- Everything whose silence may have to be judged: pools by their beats, holders with a lease of their own by renewals.
-- KEYS 1-14 as in parts/keys.lua
-- ARGV the pools that are meant; none: all; "*": a glance at all, which leaves out facts and lanes of those that beat
-- Returns one {pool, beats, lease, mark, at, lost, facts, lanes that hold something...} per pool, each lane as
--      {lane, job id, claim, lease, renewals, mark of its process}.
--! include keys records

-- Nobody beats for holders with leases of their own: their lanes are looked at each time.
local function glance(pool)
  local known = call('HMGET', ROOT .. 'pool:' .. pool, 'beat', 'lease', 'mark', 'at', 'lost')
  if not known[1] then return nil end
  return {pool, known[1], known[2] or '0', known[3] or '', known[4] or '0', known[5] or '', '{}'}
end

local function whole(pool)
  local entries = call('HGETALL', ROOT .. 'pool:' .. pool)
  local fields = {}
  for at = 1, #entries, 2 do fields[entries[at]] = entries[at + 1] end
  local row = {pool, fields['beat'] or '0', fields['lease'] or '0', fields['mark'] or '', fields['at'] or '0',
    fields['lost'] or '', fields['facts'] or '{}'}
  for name, raw in pairs(fields) do
    local worker = string.match(name, '^(%d+%.%d+)/%d+$')
    local lane = worker and read_lane(raw)
    if lane and lane.id ~= '' then
      row[#row + 1] = {name, lane.id, string.format('%d', lane.claim), string.format('%.17g', lane.lease),
        string.format('%d', lane.sign), fields['mark/' .. worker] or ''}
    end
  end
  return row
end

local answer = {}
local is_glance = ARGV[1] == '*'
local meant = (is_glance or not ARGV[1]) and call('ZRANGE', POOLS, '0', '-1') or ARGV
for _, pool in ipairs(meant) do
  answer[#answer + 1] = is_glance and glance(pool) or whole(pool)
end
return answer
