-- Everything whose silence may have to be judged: pools by their beats, holders with a lease of their own by renewals.
-- KEYS 1-14 as in parts/keys.lua
-- Returns one {pool, beats, lease, mark, at, lost, facts, lanes that hold something...} per pool, each lane as
--      {lane, job id, claim, lease, renewals, mark of its process}.
--! include keys records
local answer = {}
for _, pool in ipairs(call('ZRANGE', POOLS, '0', '-1')) do
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
  answer[#answer + 1] = row
end
return answer
