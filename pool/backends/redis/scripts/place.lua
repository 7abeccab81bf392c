-- How many jobs of its queue stand before a pending one. Reads only.
-- KEYS 1-14 as in parts/keys.lua
-- ARGV 1 job id
-- Returns {"none"}, {} when it is not pending, or {how many}.
--! include keys checks records places
local id = ARGV[1]
local raw, s = call('HGET', JOBS, id), state_of(id)
if not raw and not s then return {'none'} end
local record = read_record(raw)
if not record or not call('ZSCORE', ROOT .. 'pending:' .. record.queue, id) then return {} end
local pending = ROOT .. 'pending:' .. record.queue
local rank = rank_of(record.priority, record.seq)
if grain() == 0 then return {call('ZCOUNT', pending, '-inf', '(' .. string.format('%d', rank))} end

-- Within one priority places rise with ranks: halve until the first that does not stand before ours is found.
local mine = record.created * 1000000 - record.priority * grain() - AGED_FROM
local function before_in(class, from, count)
  local low, high = 0, count
  while low < high do
    local middle = math.floor((low + high) / 2)
    local other = call('ZRANGE', pending, from + middle, from + middle)[1]
    local place = aged_place(other, class)
    local is_before = place < mine or (place == mine and other ~= id and class < 100 - record.priority)
    if is_before then low = middle + 1 else high = middle end
  end
  return low
end

local total, low, from = 0, 0, 0
while true do
  local first = call('ZRANGEBYSCORE', pending, string.format('%d', low), '(' .. HELD_FROM, 'WITHSCORES', 'LIMIT', '0', '1')
  if not first[1] then return {total} end
  local class = math.floor(tonumber(first[2]) / SPAN)
  low = (class + 1) * SPAN
  local count = call('ZCOUNT', pending, string.format('%d', class * SPAN), '(' .. string.format('%d', low))
  total = total + before_in(class, from, count)
  from = from + count
end
