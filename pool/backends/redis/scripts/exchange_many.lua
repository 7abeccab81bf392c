-- Settle what several lanes of one worker held and hand out the next jobs to them, in one step: a plain case only.
-- KEYS 1 jobs  2 state  3 heads  4 dues  5 stats  6 pool:<pool> of the worker
-- ARGV 1 generation of the worker  2 request  3 want: "" none, "*" or "="  4 names of queues between unit separators
--      5 class (its bell)  6 claims ahead at most  7 how many jobs of the queue to leave
--      8 words: (>Hc16c4c8I lane from 0, job id, claim, started_at, length of frames; frames)*, each of a plain completion
--      9 "mark/<slot.generation>"  10 mark of the process
--      11 "bar/<slot>"  12 "beat"  13 on: entries of the lanes in the pool's hash, the lead first
-- Returns {verdict, ...}: 0 fine: a digit per lane (settled: 0 none, 1 yes, 2 lost), the time, then lane, id, record,
--      state ("" claim 1 of now) of each claim; 1 refused: the last request; 2 barred; 3 nothing was done, the lanes have
--      to call exchange one by one: then 1 if jobs were not plain, which is likely to go on.
local call, pcall_redis = redis.call, redis.pcall
local JOBS, STATE, HEADS, DUES, STATS, POOL = unpack(KEYS)
local ROOT = string.sub(JOBS, 1, -5)
local WANT = ARGV[3]
local POOLS, POOL_TEXT = ROOT .. 'pools', string.sub(POOL, #ROOT + 6)
local WORKER_TEXT = POOL_TEXT .. '/'
local LANES, NOTHING, ZERO = #ARGV - 12, '', '\0\0\0\0\0\0\0\0'
local NOT_NOW, NOT_PLAIN = {3, 0}, {3, 1}
local clock = call('TIME') -- read once: it moves inside a step on older servers
local NOW = tonumber(clock[1]) + tonumber(clock[2]) / 1000000
local NOW_TEXT, NOW_BYTES = clock[1] .. '.' .. string.sub('000000' .. clock[2], -6), struct.pack('>d', NOW)
local request = tonumber(ARGV[2])
local kept = call('HMGET', POOL, unpack(ARGV, 11))
local is_barred = kept[1] and tonumber(ARGV[1]) <= tonumber(kept[1])
local lead = kept[3]

-- How the lane stands in a state: >H length, text.
local function lane_words(n)
  local text = WORKER_TEXT .. ARGV[n + 12]
  return struct.pack('>H', #text) .. text
end

-- Layouts are those of parts/records.lua: status, flags, claim in bytes 1 to 6, the lane from byte 55 on.
local function is_held(state, claim, n)
  local lane = lane_words(n)
  return state and string.byte(state) == 114 and string.sub(state, 3, 6) == claim
    and string.sub(state, 55, 54 + #lane) == lane
end

local function same_answer()
  local digits, claims = {}, {}
  for n = 1, LANES do
    local entry, digit = kept[n + 2], 0
    if entry then
      local number, settled, _, _, _, id_at = struct.unpack('>dBc4dI', entry)
      if number == request then
        digit = settled
        local id = string.sub(entry, id_at)
        local state = id ~= '' and WANT ~= '' and call('HGET', STATE, id)
        if is_held(state, string.sub(entry, 10, 13), n) then
          claims[#claims + 1], claims[#claims + 2], claims[#claims + 3] = n - 1, id, call('HGET', JOBS, id)
          claims[#claims + 1] = state
        end
      end
    end
    digits[n] = digit
  end
  call('ZREM', HEADS, '') -- never refused, so nothing after it is
  call('HSET', POOL, ARGV[13], lead) -- a write, so that WAITAOF after a lost reply waits for the claim too
  return {0, table.concat(digits), '0', unpack(claims)}
end

local last = lead and struct.unpack('>d', lead) or 0
if request < last then return {1, last} end
if request == last then
  if is_barred and WANT ~= '' then return {2} end
  return same_answer()
end
if is_barred then return NOT_NOW end

-- ---------------------------------------------------------------- look first: what the lanes hold, and their words

local held = {} -- by lane: the id in its entry
for n = 1, LANES do
  local entry = kept[n + 2]
  held[n] = NOTHING
  if entry then
    local number, _, _, lease, _, id_at = struct.unpack('>dBc4dI', entry)
    if number >= request or lease > 0 then return NOT_NOW end
    held[n] = string.sub(entry, id_at)
  end
end

local done, done_lane, done_claim, done_start, done_frames, words, at = {}, {}, {}, {}, {}, ARGV[8], 1
while at <= #words do
  local k, lane, size = #done + 1
  lane, done[k], done_claim[k], done_start[k], size, at = struct.unpack('>Hc16c4c8I', words, at)
  done_lane[k] = lane + 1
  done_frames[k] = string.sub(words, at, at + size - 1)
  at = at + size
  if held[lane + 1] ~= done[k] then return NOT_NOW end
  held[lane + 1] = NOTHING
end
local is_lead_at_work = held[1] ~= NOTHING

-- ---------------------------------------------------------------- look first: the next jobs, all of one queue

local queue, found, below, behind, behind_rank
local free, asked = {}, tonumber(ARGV[6]) -- lanes that may be given something ahead
if WANT ~= '' then
  if is_lead_at_work then return NOT_NOW end -- it makes sure of an old claim
  for n = 2, LANES do
    if #free == asked then break end
    if held[n] == NOTHING then free[#free + 1] = n end
  end
  if call('ZCARD', DUES) > 0 and call('ZRANGEBYSCORE', DUES, '-inf', NOW_TEXT, 'LIMIT', '0', '1')[1] then return NOT_NOW end
  local most, aged = tostring(#free), nil
  if WANT == '=' then
    for listed in string.gmatch(ARGV[4], '[^\31]+') do
      local bound = call('ZSCORE', HEADS, listed)
      found = bound and call('ZRANGE', ROOT .. 'pending:' .. listed, '0', most, 'WITHSCORES')
      if found and found[1] then
        queue, aged = listed, string.byte(bound) == 45
        break
      end
    end
  else
    local heads, reserved = call('ZRANGE', HEADS, '0', '2', 'WITHSCORES'), ARGV[4]
    queue = heads[1]
    if queue then
      for at_head = 1, #heads, 2 do
        if string.find(reserved, '\31' .. heads[at_head] .. '\31', 1, true) then return NOT_PLAIN end
      end
      aged = string.byte(heads[2]) == 45
      found = call('ZRANGE', ROOT .. 'pending:' .. queue, '0', most, 'WITHSCORES')
      if not found[1] then return NOT_NOW end
      below = tonumber(heads[4])
      if heads[3] and tonumber(found[2]) > below then
        local second = call('ZRANGE', ROOT .. 'pending:' .. heads[3], '0', most, 'WITHSCORES')
        if not second[1] then return NOT_NOW end
        if tonumber(second[2]) < tonumber(found[2]) then
          queue, behind, behind_rank, found = heads[3], queue, found[2], second
        else
          behind, behind_rank = heads[3], second[2]
        end
        below = tonumber(behind_rank)
      end
      local third = tonumber(heads[6])
      if third and third < below then below = third end
      if below and tonumber(found[2]) > below then return NOT_NOW end
    end
  end
  if aged then return NOT_PLAIN end -- a bound below zero: waiting counts here, and the first is not always the next
end

local ids = {}
if queue then
  local most = #free
  if most > 0 and #found > 2 then
    local to_leave = tonumber(ARGV[7])
    if to_leave > 0 then most = math.min(most, call('ZCARD', ROOT .. 'pending:' .. queue) - 1 - to_leave) end
  end
  ids[1] = found[1]
  for k = 3, #found, 2 do
    if #ids > most or below and tonumber(found[k + 1]) > below then break end
    ids[#ids + 1] = found[k]
  end
end

-- Whether a record is plain: no dates, no extras that somebody has to be paid, lengths that can be.
local function is_plain(raw)
  local flags = raw and #raw >= 28 and string.byte(raw)
  if flags ~= 0 and flags ~= 2 then return false end
  local type_n, queue_n, owner_n, after = struct.unpack('>HHH', raw, 23)
  local size = 0
  if flags == 2 then
    if #raw < 32 then return false end
    size, after = struct.unpack('>I', raw, after)
  end
  if owner_n == 65535 then owner_n = 0 end
  after = after + type_n + queue_n + owner_n
  local ends = after + size
  if ends > #raw + 1 then return false end
  while after < ends do
    local tag = string.byte(raw, after)
    if tag ~= 84 and tag ~= 80 then return false end -- T timeout, P parent
    size, after = struct.unpack('>I', raw, after + 1)
    after = after + size
  end
  return true
end

local looked_up, taken, records = {}, 0, {}
for k = 1, #done do looked_up[k] = done[k] end
for k = 1, #ids do looked_up[#done + k] = ids[k] end
local states = looked_up[1] and call('HMGET', STATE, unpack(looked_up)) or {}
if ids[1] then
  records = call('HMGET', JOBS, unpack(ids))
  for k = 1, #ids do
    if states[#done + k] or not is_plain(records[k]) then break end
    local is_at_most_once = string.sub(records[k], 19, 20) == '\0\0'
    if is_at_most_once and k > 1 then break end
    taken = k
    if is_at_most_once then break end
  end
  if taken == 0 then return NOT_PLAIN end
end

-- ---------------------------------------------------------------- look first: what is settled

local by_queue, writes = {}, {}
for k = 1, #done do
  local state, lane = states[k], lane_words(done_lane[k])
  if not is_held(state, done_claim[k], done_lane[k]) or string.byte(state, 2) ~= 0 then return NOT_PLAIN end
  local queue_at = 55 + #lane
  local queue_n, name_at = struct.unpack('>H', state, queue_at)
  if name_at + queue_n <= #state then return NOT_PLAIN end -- frames of its own
  local name = string.sub(state, name_at)
  if not by_queue[name] then by_queue[name] = {} end
  table.insert(by_queue[name], done[k])
  writes[#writes + 1] = done[k]
  writes[#writes + 1] = 'c\8' .. string.sub(state, 3, 14) .. ZERO .. string.sub(state, 23, 30) .. done_start[k]
    .. NOW_BYTES .. NOW_BYTES .. string.sub(state, 55) .. done_frames[k]
end
for name in pairs(by_queue) do
  call('ZCARD', ROOT .. 'running:' .. name)
  call('LLEN', ROOT .. 'completed:' .. name)
end
if queue then call('ZCARD', ROOT .. 'running:' .. queue) end
call('HLEN', STATS)
local is_new_pool = not lead and not call('ZSCORE', POOLS, POOL_TEXT)

-- ---------------------------------------------------------------- then write

call('ZREM', HEADS, '') -- never refused, so nothing after it is: a full store can always be worked off
for name, over in pairs(by_queue) do
  call('ZREM', ROOT .. 'running:' .. name, unpack(over))
  call('RPUSH', ROOT .. 'completed:' .. name, unpack(over))
end
if #done > 0 then
  call('HINCRBY', STATS, 'h:' .. string.format('%d', math.floor(NOW / 3600)) .. ':completed', tostring(#done))
end

local settled, given = {}, {}
for k = 1, #done do settled[done_lane[k]] = true end

if taken > 0 then
  local pending, running = ROOT .. 'pending:' .. queue, {}
  local head = struct.pack('>BBIHHHHddddd', 114, 0, 1, 0, 0, 0, 0, 0, NOW, 0, 0, NOW)
  local tail = struct.pack('>H', #queue) .. queue
  for k = 1, taken do
    local lane = k == 1 and 1 or free[k - 1]
    given[lane] = k
    running[#running + 1] = NOW_TEXT
    running[#running + 1] = ids[k]
    writes[#writes + 1] = ids[k]
    writes[#writes + 1] = head .. lane_words(lane) .. tail
  end
  call('ZREM', pending, unpack(ids, 1, taken))
  call('ZADD', ROOT .. 'running:' .. queue, unpack(running))
  if behind then call('ZADD', HEADS, behind_rank, behind) end
  local bell = ROOT .. 'bell:' .. ARGV[5]
  if pcall_redis('LLEN', bell) == 0 then -- a bell that is rung already needs no look at what is left
    local is_left = call('ZCARD', pending) > 0
    if not is_left then
      call('ZREM', HEADS, queue)
      is_left = call('ZCARD', HEADS) > 0
    end
    if is_left then pcall_redis('RPUSH', bell, '1') end
  end
end
if writes[1] then call('HSET', STATE, unpack(writes)) end

-- Entries: request, settled, claim, no lease, the beat at the time of the claim, id.
local NUMBER, SIGN = struct.pack('>d', request), struct.pack('>I', tonumber(kept[2] or 0))
local digits, entries, answer = {}, {}, {0, NOTHING, NOW_TEXT}
for n = 1, LANES do
  local digit, k, entry = settled[n] and 1 or 0, given[n], nil
  digits[n] = digit
  if k then
    entry = string.char(digit) .. '\0\0\0\1' .. ZERO .. SIGN .. ids[k]
    local last_one = #answer
    answer[last_one + 1], answer[last_one + 2], answer[last_one + 3], answer[last_one + 4] = n - 1, ids[k], records[k], NOTHING
  elseif settled[n] or n == 1 and not is_lead_at_work then
    entry = string.char(digit) .. '\0\0\0\0' .. ZERO .. SIGN
  elseif n == 1 then
    entry = '\0' .. string.sub(lead, 10)
  end
  if entry then
    entries[#entries + 1] = ARGV[n + 12]
    entries[#entries + 1] = NUMBER .. entry
  end
end
if not lead then
  entries[#entries + 1] = ARGV[9]
  entries[#entries + 1] = ARGV[10]
end
call('HSET', POOL, unpack(entries))
if is_new_pool then call('ZADD', POOLS, NOW_TEXT, POOL_TEXT) end
answer[2] = table.concat(digits)
return answer
