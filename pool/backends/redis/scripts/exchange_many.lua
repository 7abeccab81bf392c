-- Settle what several lanes of one worker held and hand out the next jobs to them, in one step: a plain case only.
-- KEYS 1 jobs  2 state  3 heads  4 dues  5 stats  6 pool:<pool> of the worker
-- ARGV 1 generation of the worker  2 request  3 want: "" none, "*" or "="  4 names of queues between unit separators
--      5 bell:<class>  6 claims ahead at most  7 how many jobs of the queue to leave
--      8 words: (>Hc16IdI lane from 0, job id, claim, started_at, length of frames; frames)*, each of a plain completion
--      9 "mark/<slot.generation>", unit separator, mark of the process
--      10 "bar/<slot>"  11 "beat"  12 on: entries of the lanes in the pool's hash, the lead first
-- Returns {verdict, ...}: 0 fine: a digit per lane (settled: 0 none, 1 yes, 2 lost), seconds and microseconds, then lane,
--      id, record, state ("" claim 1 of now) of each claim; 1 refused: the last request; 2 barred; 3 nothing was done, the
--      lanes have to call exchange one by one: then 1 if jobs were not plain, which is likely to go on.
-- Few texts are made here, for that is what takes the time (exchange.lua); layouts are those of parts/records.lua.
local call, pcall_redis = redis.call, redis.pcall
local JOBS, STATE, HEADS, DUES, STATS, POOL = unpack(KEYS)
local ROOT = string.sub(JOBS, 1, -5)
local WANT = ARGV[3]
local POOL_TEXT = string.sub(POOL, #ROOT + 6)
local LANES = #ARGV - 11
local NOT_NOW, NOT_PLAIN = {3, 0}, {3, 1}
local ENTRY, STATE_HEAD, NEW_STATE = '>dBIdI', '>BBIHHHHdd', '>BBIHHHHdddddc0'
local clock = call('TIME') -- read once: it moves inside a step on older servers
local NOW = tonumber(clock[1]) + tonumber(clock[2]) / 1000000
local request = tonumber(ARGV[2])
local kept = call('HMGET', POOL, unpack(ARGV, 10))
local is_barred = kept[1] and tonumber(ARGV[1]) <= tonumber(kept[1])
local lead = kept[3]

-- How the lane stands in a state: >H length, text.
local function lane_words(n)
  local text = POOL_TEXT .. '/' .. ARGV[n + 11]
  return struct.pack('>Hc0', #text, text)
end

local function is_held(state, claim, n)
  if not state or #state < 56 then return false end
  local status, _, its_claim = struct.unpack(STATE_HEAD, state)
  local lane = lane_words(n)
  return status == 114 and its_claim == claim and string.sub(state, 55, 54 + #lane) == lane
end

local function same_answer()
  local digits, answer = {}, {0, '', clock[1], clock[2]}
  for n = 1, LANES do
    local entry, digit = kept[n + 2], 0
    if entry and #entry >= 25 then
      local number, settled, claim, _, _, id_at = struct.unpack(ENTRY, entry)
      if number == request then
        digit = settled
        local id = string.sub(entry, id_at)
        local state = id ~= '' and WANT ~= '' and call('HGET', STATE, id)
        if is_held(state, claim, n) then
          for _, part in ipairs({n - 1, id, call('HGET', JOBS, id), state}) do answer[#answer + 1] = part end
        end
      end
    end
    digits[n] = digit
  end
  call('ZREM', HEADS, '') -- never refused, so nothing after it is
  call('HSET', POOL, ARGV[12], lead) -- a write, so that WAITAOF after a lost reply waits for the claim too
  answer[2] = table.concat(digits)
  return answer
end

local last = lead and #lead >= 25 and struct.unpack('>d', lead) or 0
if request < last then return {1, last} end
if request == last then
  if is_barred and WANT ~= '' then return {2} end
  return same_answer()
end
if is_barred then return NOT_NOW end

-- ---------------------------------------------------------------- look first: what the lanes hold, and their words

local held = {} -- by lane: the id in its entry; false for none
for n = 1, LANES do
  local entry = kept[n + 2]
  if entry then
    if #entry < 25 then return NOT_NOW end
    local number, _, _, lease, _, id_at = struct.unpack(ENTRY, entry)
    if number >= request or lease > 0 then return NOT_NOW end
    held[n] = id_at <= #entry and string.sub(entry, id_at)
  else
    held[n] = false
  end
end

local done, done_lane, done_claim, done_start, done_frames, words, at = {}, {}, {}, {}, {}, ARGV[8], 1
while at <= #words do
  local k, lane, size = #done + 1
  lane, done[k], done_claim[k], done_start[k], size, at = struct.unpack('>Hc16IdI', words, at)
  done_lane[k] = lane + 1
  if size > 0 then
    done_frames[k] = string.sub(words, at, at + size - 1)
    at = at + size
  end
  if held[lane + 1] ~= done[k] then return NOT_NOW end
  held[lane + 1] = false
end

-- ---------------------------------------------------------------- look first: the next jobs, all of one queue

local queue, pending, found, stride, below, behind, behind_rank
local free = {} -- lanes that may be given something ahead
if WANT ~= '' then
  if held[1] then return NOT_NOW end -- the lead makes sure of an old claim
  if call('ZCARD', DUES) > 0 and call('ZRANGEBYSCORE', DUES, '-inf', NOW, 'LIMIT', '0', '1')[1] then return NOT_NOW end
  local ageing = call('HGET', STATS, 'ageing')
  if ageing and tonumber(ageing) ~= 0 then return NOT_PLAIN end -- waiting counts here: the first is not always the next
  local ahead = tonumber(ARGV[6])
  for n = 2, LANES do
    if #free == ahead then break end
    if not held[n] then free[#free + 1] = n end
  end
  local most = tostring(#free)
  stride = 1
  if WANT == '=' then
    for listed in string.gmatch(ARGV[4], '[^\31]+') do
      if call('ZSCORE', HEADS, listed) then
        pending = ROOT .. 'pending:' .. listed
        found = call('ZRANGE', pending, '0', most)
        if found[1] then
          queue = listed
          break
        end
      end
    end
  else
    local heads, reserved = call('ZRANGE', HEADS, '0', '2'), ARGV[4]
    for _, head in ipairs(heads) do
      if string.find(reserved, '\31' .. head .. '\31', 1, true) then return NOT_NOW end
    end
    queue = heads[1]
    if queue and not heads[2] then
      pending = ROOT .. 'pending:' .. queue
      found = call('ZRANGE', pending, '0', most)
      if not found[1] then return NOT_NOW end
    elseif queue then
      local bounds = call('ZRANGE', HEADS, '1', '2', 'WITHSCORES')
      stride, pending = 2, ROOT .. 'pending:' .. queue
      found = call('ZRANGE', pending, '0', most, 'WITHSCORES')
      if not found[1] then return NOT_NOW end
      below = tonumber(bounds[2])
      if tonumber(found[2]) > below then
        local rival = ROOT .. 'pending:' .. heads[2]
        local second = call('ZRANGE', rival, '0', most, 'WITHSCORES')
        if not second[1] then return NOT_NOW end
        if tonumber(second[2]) < tonumber(found[2]) then
          queue, pending, behind, behind_rank, found = heads[2], rival, queue, found[2], second
        else
          behind, behind_rank = heads[2], second[2]
        end
        below = tonumber(behind_rank)
      end
      local third = tonumber(bounds[4])
      if third and third < below then below = third end
      if tonumber(found[2]) > below then return NOT_NOW end
    end
  end
end

local ids = {}
if queue then
  local most, to_leave = #free, tonumber(ARGV[7])
  if most > 0 and to_leave > 0 and found[stride + 1] then most = math.min(most, call('ZCARD', pending) - 1 - to_leave) end
  ids[1] = found[1]
  for k = stride + 1, #found, stride do
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
    if tag ~= 84 and tag ~= 80 or after + 4 > #raw then return false end -- T timeout, P parent
    size, after = struct.unpack('>I', raw, after + 1)
    after = after + size
  end
  return true
end

local looked_up, taken, records = {}, 0, nil
for k = 1, #done do looked_up[k] = done[k] end
for k = 1, #ids do looked_up[#done + k] = ids[k] end
local states = looked_up[1] and call('HMGET', STATE, unpack(looked_up))
if ids[1] then
  records = call('HMGET', JOBS, unpack(ids))
  for k = 1, #ids do
    if states[#done + k] or not is_plain(records[k]) then break end
    local is_at_most_once = string.byte(records[k], 19) == 0 and string.byte(records[k], 20) == 0
    if is_at_most_once and k > 1 then break end
    taken = k
    if is_at_most_once then break end
  end
  if taken == 0 then return NOT_PLAIN end
end

-- ---------------------------------------------------------------- look first: what is settled

-- Where a job of the lane stands that is of the queue which is served now: most of those that are settled do, too.
local queue_words = queue and struct.pack('>Hc0', #queue, queue)
local places = {}
local function place(n)
  if not places[n] then places[n] = lane_words(n) .. queue_words end
  return places[n]
end

-- The queue of a job that stands elsewhere; nil when it is not the lane's or has frames of its own.
local function queue_in(stood, n)
  local lane = lane_words(n)
  if string.sub(stood, 1, #lane) ~= lane or #stood < #lane + 2 then return nil end
  local size, name_at = struct.unpack('>H', stood, #lane + 1)
  if name_at + size ~= #stood + 1 then return nil end
  return string.sub(stood, name_at)
end

local by_queue, writes = {}, {}
for k = 1, #done do
  local state, n = states[k], done_lane[k]
  if not state or #state < 56 then return NOT_PLAIN end
  local status, flags, claim, retries, kills, losses, misfits, _, claimed = struct.unpack(STATE_HEAD, state)
  if status ~= 114 or flags ~= 0 or claim ~= done_claim[k] then return NOT_PLAIN end
  local stood = string.sub(state, 55)
  local name = queue and stood == place(n) and queue or queue_in(stood, n)
  if not name then return NOT_PLAIN end
  local over = by_queue[name]
  if not over then
    over = {}
    by_queue[name] = over
  end
  over[#over + 1] = done[k]
  local raw = struct.pack(NEW_STATE, 99, 8, claim, retries, kills, losses, misfits, 0, claimed, done_start[k], NOW, NOW, stood)
  if done_frames[k] then raw = raw .. done_frames[k] end
  writes[2 * k - 1], writes[2 * k] = done[k], raw
end
for name in pairs(by_queue) do
  call('ZCARD', ROOT .. 'running:' .. name)
  call('LLEN', ROOT .. 'completed:' .. name)
end
if queue and not by_queue[queue] then call('ZCARD', ROOT .. 'running:' .. queue) end
call('HLEN', STATS)
local POOLS = ROOT .. 'pools'
local is_new_pool = not lead and not call('ZSCORE', POOLS, POOL_TEXT)

-- ---------------------------------------------------------------- then write

call('ZREM', HEADS, '') -- never refused, so nothing after it is: a full store can always be worked off
for name, over in pairs(by_queue) do
  call('ZREM', ROOT .. 'running:' .. name, unpack(over))
  call('RPUSH', ROOT .. 'completed:' .. name, unpack(over))
end
if done[1] then
  local counter = string.format('h:%d:completed', NOW / 3600)
  local counted = pcall_redis('HINCRBY', STATS, counter, tostring(#done))
  if type(counted) == 'table' then call('HSET', STATS, counter, tostring(#done)) end
end

local given = {} -- by lane: which of the ids
if taken > 0 then
  local running = {}
  for k = 1, taken do
    local n = k == 1 and 1 or free[k - 1]
    given[n] = k
    running[2 * k - 1], running[2 * k] = '0', ids[k]
    writes[#writes + 1] = ids[k]
    writes[#writes + 1] = struct.pack(NEW_STATE, 114, 0, 1, 0, 0, 0, 0, 0, NOW, 0, 0, NOW, place(n))
  end
  call('ZREM', pending, unpack(ids, 1, taken))
  call('ZADD', ROOT .. 'running:' .. queue, unpack(running))
  if behind then call('ZADD', HEADS, behind_rank, behind) end
  if pcall_redis('LLEN', ARGV[5]) == 0 then -- a bell that is rung already needs no look at what is left
    local is_left = call('ZCARD', pending) > 0
    if not is_left then
      call('ZREM', HEADS, queue)
      is_left = call('ZCARD', HEADS) > 0
    end
    if is_left then pcall_redis('RPUSH', ARGV[5], '1') end
  end
end
if writes[1] then call('HSET', STATE, unpack(writes)) end

-- Entries: request, settled, claim, no lease, the beat at the time of the claim, id.
local sign, settled = tonumber(kept[2] or 0) or 0, {}
local digits, entries, answer = {}, {}, {0, '', clock[1], clock[2]}
for k = 1, #done do settled[done_lane[k]] = true end
for n = 1, LANES do
  local digit, k, entry = settled[n] and 1 or 0, given[n], nil
  digits[n] = digit
  if k then
    entry = struct.pack('>dBIdIc0', request, digit, 1, 0, sign, ids[k])
    local size = #answer
    answer[size + 1], answer[size + 2], answer[size + 3], answer[size + 4] = n - 1, ids[k], records[k], ''
  elseif digit == 1 or n == 1 and not held[1] then
    entry = struct.pack(ENTRY, request, digit, 0, 0, sign)
  elseif n == 1 then
    entry = struct.pack('>dBc0', request, 0, string.sub(lead, 10))
  end
  if entry then
    entries[#entries + 1] = ARGV[n + 11]
    entries[#entries + 1] = entry
  end
end
if not lead then
  entries[#entries + 1], entries[#entries + 2] = string.match(ARGV[9], '^([^\31]*)\31(.*)$')
end
call('HSET', POOL, unpack(entries))
if is_new_pool then call('ZADD', POOLS, NOW, POOL_TEXT) end
answer[2] = table.concat(digits)
return answer
