-- Settle what several lanes of one worker held and hand out the next jobs to them, in one step: a plain case only.
-- KEYS 1 jobs  2 state  3 heads  4 dues  5 stats  6 pool:<pool> of the worker
-- ARGV 1 generation of the worker  2 request  3 want: "" none, "*" or "="  4 names of queues between unit separators
--      5 bell:<class>  6 claims ahead at most  7 how many jobs of the queue to leave
--      8 words: (>Hc16Ic8I lane from 0, job id, claim, started_at, length of frames; frames)*, each of a plain completion
--      or, with 32768 above the lane, of a job handed back before its start: here only if it comes too late
--      9 "mark/<slot.generation>", unit separator, mark of the process
--      10 "bar/<slot>"  11 "beat"  12 on: entries of the lanes in the pool's hash, the lead first; then, in the same order,
--      the lanes as a state has them (>H length, text)
-- Returns {verdict, ...}: 0 fine: a digit per lane (settled: 0 none, 1 yes, 2 lost; 4 more with a claim), seconds and
--      microseconds, ids, records, all in the order of the lanes, then their states, unless each is a first claim of now
--      ("" for one that is); 1 refused: the last request; 2 barred; 3 nothing was done, the lanes have to call exchange
--      one by one: then 1 if jobs were not plain, which is likely to go on; 4 as 0, but of a number that was asked before.
-- Few texts are made here and most of them by joining pieces, for that is what takes the time (exchange.lua); tables are
-- made in their full size (`room`), for growing them is the next. Layouts are those of parts/records.lua.
local call, pcall_redis = redis.call, redis.pcall
local read, sub = struct.unpack, string.sub
local JOBS, STATE, HEADS, DUES, STATS, POOL = unpack(KEYS)
local ROOT = sub(JOBS, 1, -5)
local WANT = ARGV[3]
local LANES = (#ARGV - 11) / 2
local FIELD, PLACE = 11, LANES + 11 -- those of lane n stand behind these in ARGV
local NOT_NOW, NOT_PLAIN = {3, 0}, {3, 1}
local ENTRY, STATE_HEAD = '>dBIdI', '>BBIHHHHd'
local HANDED_BACK = 32768
local clock = call('TIME') -- read once: it moves inside a step on older servers
local NOW = tonumber(clock[1]) + tonumber(clock[2]) / 1000000
local request = tonumber(ARGV[2])
local kept = call('HMGET', POOL, unpack(ARGV, 10, PLACE))
local is_barred = kept[1] and tonumber(ARGV[1]) <= tonumber(kept[1])
local lead = kept[3]

-- A table with room for something of each lane.
local function room() return {unpack(ARGV, FIELD + 1, PLACE)} end

local function is_held(state, claim, n)
  if not state or #state < 56 then return false end
  local status, _, its_claim = read(STATE_HEAD, state)
  local lane = ARGV[PLACE + n]
  return status == 114 and its_claim == claim and sub(state, 55, 54 + #lane) == lane
end

local function same_answer()
  local digits, ids, records, states = {}, {}, {}, {}
  for n = 1, LANES do
    local entry, digit = kept[n + 2], 0
    if entry and #entry >= 25 then
      local number, settled, claim, _, _, id_at = read(ENTRY, entry)
      if number == request then
        digit = settled
        local id = sub(entry, id_at)
        local state = id ~= '' and WANT ~= '' and call('HGET', STATE, id)
        if is_held(state, claim, n) then
          local k = #ids + 1
          ids[k], records[k], states[k] = id, call('HGET', JOBS, id), state
          digit = digit + 4
        end
      end
    end
    digits[n] = digit
  end
  call('ZREM', HEADS, '') -- never refused, so nothing after it is
  call('HSET', POOL, ARGV[FIELD + 1], lead) -- a write, so that WAITAOF after a lost reply waits for the claim too
  return {4, table.concat(digits), clock[1], clock[2], ids, records, states}
end

local last = lead and #lead >= 25 and read('>d', lead) or 0
if request < last then return {1, last} end
if request == last then
  if is_barred and WANT ~= '' then return {2} end
  return same_answer()
end
if is_barred then return NOT_NOW end

-- ---------------------------------------------------------------- look first: what the lanes hold, and their words

local held = room() -- by lane: the id in its entry; false for none
for n = 1, LANES do
  local entry = kept[n + 2]
  if entry then
    if #entry < 25 then return NOT_NOW end
    local number, _, _, lease, _, id_at = read(ENTRY, entry)
    if number >= request or lease > 0 then return NOT_NOW end
    entry = id_at <= #entry and sub(entry, id_at)
  end
  held[n] = entry
end

-- Whether a word about a job that is not in its lane's entry comes too late. Not if the claim may have been lost in a
-- failover (exchange.lua, `adopted`).
local function is_late(id, claim, n)
  local state = call('HGET', STATE, id)
  if not state or #state < 56 or is_held(state, claim, n) then return false end
  local status, _, its_claim = read(STATE_HEAD, state)
  return status ~= 119 or its_claim >= claim
end

-- Of the k-th word: its lane, claim, start, frames. The jobs: those that are done, then those that are handed out.
local lane_of, claim_of, start_of, frames_of, jobs = room(), room(), room(), {}, {unpack(ARGV)}
local done, words, at, size, late = 0, ARGV[8], 1, 0, {}
while at <= #words do
  local k, lane = done + 1, 0
  lane, jobs[k], claim_of[k], start_of[k], size, at = read('>Hc16Ic8I', words, at)
  local is_completed = lane < HANDED_BACK
  lane = lane % HANDED_BACK + 1
  if is_completed and held[lane] == jobs[k] then
    lane_of[k], held[lane], done = lane, false, k
    if size > 0 then frames_of[k] = sub(words, at, at + size - 1) end
  elseif not held[lane] and is_late(jobs[k], claim_of[k], lane) then
    late[#late + 1] = lane
  else
    return NOT_NOW
  end
  at = at + size
end

-- ---------------------------------------------------------------- look first: the next jobs, all of one queue

local queue, emptied, pending, found, stride, below, behind, behind_rank
local free, spare = room(), 0 -- lanes that may be given something ahead
if WANT ~= '' then
  if held[1] then return NOT_NOW end -- the lead makes sure of an old claim
  if call('ZCARD', DUES) > 0 and call('ZRANGEBYSCORE', DUES, '-inf', NOW, 'LIMIT', '0', '1')[1] then return NOT_NOW end
  local ageing = call('HGET', STATS, 'ageing')
  if ageing and tonumber(ageing) ~= 0 then return NOT_PLAIN end -- waiting counts here: the first is not always the next
  local ahead = tonumber(ARGV[6])
  for n = 2, LANES do
    if spare == ahead then break end
    if not held[n] then
      spare = spare + 1
      free[spare] = n
    end
  end
  local most = tostring(spare)
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
      if not found[1] then queue, emptied, found = nil, queue, nil end -- whoever took its last job has left the head
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

local ids, count = found, 0
if queue then
  local most, to_leave = spare, tonumber(ARGV[7])
  if most > 0 and to_leave > 0 and found[stride + 1] then most = math.min(most, call('ZCARD', pending) - 1 - to_leave) end
  if stride > 1 then ids = room() end
  for k = 1, #found, stride do
    if count > 0 and (count > most or below and tonumber(found[k + 1]) > below) then break end
    count = count + 1
    ids[count] = found[k]
  end
end

-- Whether a record is plain: no dates, no extras that somebody has to be paid, lengths that can be.
local function is_plain(raw)
  local flags = raw and #raw >= 28 and string.byte(raw)
  if flags ~= 0 and flags ~= 2 then return false end
  local type_n, queue_n, owner_n, after = struct.unpack('>HHH', raw, 23)
  if owner_n == 65535 then owner_n = 0 end
  if flags == 0 then return after + type_n + queue_n + owner_n <= #raw + 1 end
  if #raw < 32 then return false end
  local size
  size, after = struct.unpack('>I', raw, after)
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

-- Whether the state of a waiting job is plain: claimed before, but neither delayed nor marked, and with nothing to show.
local function is_plain_again(state)
  if #state < 56 then return false end
  local status, flags, _, _, _, _, _, due = read(STATE_HEAD, state)
  local queue_at = 57 + read('>H', state, 55)
  if status ~= 119 or flags ~= 0 or due ~= 0 or #state < queue_at + 1 then return false end
  return queue_at + 1 + read('>H', state, queue_at) == #state
end

for k = 1, count do jobs[done + k] = ids[k] end
local taken, records = 0, nil
local states = done + count > 0 and call('HMGET', STATE, unpack(jobs, 1, done + count))
if count > 0 then
  records = call('HMGET', JOBS, unpack(ids, 1, count))
  for k = 1, count do
    local state = states[done + k]
    if state and not is_plain_again(state) or not is_plain(records[k]) then break end
    local is_at_most_once = string.byte(records[k], 19) == 0 and string.byte(records[k], 20) == 0
    if is_at_most_once and k > 1 then break end
    taken = k
    if is_at_most_once then break end
  end
  if taken == 0 then return NOT_PLAIN end
end

-- ---------------------------------------------------------------- look first: what is settled

-- Where a job of each lane stands that is of the queue which is served now: most of those that are settled do, too.
local queue_words = queue and struct.pack('>Hc0', #queue, queue) or ''
local places = room()
for n = 1, LANES do places[n] = ARGV[PLACE + n] .. queue_words end

-- The queue of a job that stands elsewhere; nil when it is not the lane's or has frames of its own.
local function queue_in(stood, n)
  local lane = ARGV[PLACE + n]
  if sub(stood, 1, #lane) ~= lane or #stood < #lane + 2 then return nil end
  local length, name_at = read('>H', stood, #lane + 1)
  if name_at + length ~= #stood + 1 then return nil end
  return sub(stood, name_at)
end

local NONE = '\0\0\0\0\0\0\0\0' -- a time that is not
local now = struct.pack('>d', NOW)
local ended = now .. now -- finished, updated
local writes = {unpack(ARGV)}
local runs, freed = {}, {} -- {queue, first, last} of those that are done one after the other in one queue
for k = 1, done do
  local state, n = states[k], lane_of[k]
  if not state or #state < 56 then return NOT_PLAIN end
  local status, flags, claim, _, _, _, _, due = read(STATE_HEAD, state)
  if status ~= 114 or flags ~= 0 or claim ~= claim_of[k] then return NOT_PLAIN end
  local stood = sub(state, 55)
  local name = queue and stood == places[n] and queue or queue_in(stood, n)
  if not name then return NOT_PLAIN end
  local run = runs[#runs]
  if run and run[1] == name then run[3] = k else runs[#runs + 1] = {name, k, k} end
  freed[name] = (freed[name] or 0) + 1
  -- completed, plain; claim, counts, due, claimed as they were
  local counts = due == 0 and sub(state, 3, 30) or sub(state, 3, 14) .. NONE .. sub(state, 23, 30)
  writes[2 * k - 1], writes[2 * k] = jobs[k], 'c\8' .. counts .. start_of[k] .. ended .. stood .. (frames_of[k] or '')
end
for _, run in ipairs(runs) do call('LLEN', ROOT .. 'completed:' .. run[1]) end
call('HLEN', STATS)
local POOLS = ROOT .. 'pools'
local pool = not lead and sub(POOL, #ROOT + 6)
local is_new_pool = pool and not call('ZSCORE', POOLS, pool)

-- ---------------------------------------------------------------- then write

call('ZREM', HEADS, '') -- never refused, so nothing after it is: a full store can always be worked off
for _, run in ipairs(runs) do call('RPUSH', ROOT .. 'completed:' .. run[1], unpack(jobs, run[2], run[3])) end
if emptied then call('ZREM', HEADS, emptied) end
if taken > 0 then freed[queue] = (freed[queue] or 0) - taken end
for name, fewer in pairs(freed) do -- running jobs are only counted; mostly as many go as come
  local field, more = 'r:' .. name, string.format('%d', -fewer)
  if fewer ~= 0 and type(pcall_redis('HINCRBY', STATS, field, more)) == 'table' then call('HSET', STATS, field, more) end
end
if done > 0 then
  local counter, more = string.format('h:%d:completed', NOW / 3600), tostring(done)
  if type(pcall_redis('HINCRBY', STATS, counter, more)) == 'table' then call('HSET', STATS, counter, more) end
end

-- Entries: request, settled, claim, no lease, the beat at the time of the claim, id.
local sign, digits, again = tonumber(kept[2] or 0) or 0, room(), nil
local entries, last_entry = {unpack(ARGV)}, 0
for n = 1, LANES do digits[n] = 48 end
for k = 1, done do digits[lane_of[k]] = 49 end
for _, n in ipairs(late) do digits[n] = 50 end
if taken > 0 then
  local first = {} -- by digit: the entry of a lane with a first claim, up to the id
  for digit = 48, 50 do first[digit] = struct.pack(ENTRY, request, digit - 48, 1, 0, sign) end
  local head = 'r\0\0\0\0\1' .. NONE .. NONE .. now .. NONE .. NONE .. now -- of a first claim, up to its place
  for k = 1, taken do
    local n, id, before = k == 1 and 1 or free[k - 1], ids[k], states[done + k]
    local state, entry = head, first[digits[n]]
    if before then -- one claim more, counts and earlier times as they were
      local claim = read('>I', before, 3) + 1
      state = 'r\0' .. struct.pack('>I', claim) .. sub(before, 7, 14) .. NONE .. now .. sub(before, 31, 46) .. now
      entry = struct.pack(ENTRY, request, digits[n] - 48, claim, 0, sign)
      again = again or {}
      again[k] = state .. places[n]
    end
    writes[2 * (done + k) - 1], writes[2 * (done + k)] = id, state .. places[n]
    entries[last_entry + 1], entries[last_entry + 2] = ARGV[FIELD + n], entry .. id
    last_entry = last_entry + 2
    digits[n] = digits[n] + 4
  end
  call('ZREMRANGEBYRANK', pending, '0', tostring(taken - 1)) -- they are the first
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
if done + taken > 0 then call('HSET', STATE, unpack(writes, 1, 2 * (done + taken))) end

for n = 1, LANES do
  local entry
  if digits[n] == 49 or digits[n] == 50 or n == 1 and digits[n] == 48 and not held[1] then
    entry = struct.pack(ENTRY, request, digits[n] - 48, 0, 0, sign)
  elseif n == 1 and digits[n] == 48 then
    entry = struct.pack('>dBc0', request, 0, sub(lead, 10))
  end
  if entry then
    entries[last_entry + 1], entries[last_entry + 2] = ARGV[FIELD + n], entry
    last_entry = last_entry + 2
  end
end
if not lead then
  entries[last_entry + 1], entries[last_entry + 2] = string.match(ARGV[9], '^([^\31]*)\31(.*)$')
  last_entry = last_entry + 2
end
call('HSET', POOL, unpack(entries, 1, last_entry))
if is_new_pool then call('ZADD', POOLS, NOW, pool) end
for k = taken + 1, count do ids[k], records[k] = nil, nil end
if again then
  for k = 1, taken do again[k] = again[k] or '' end
end
return {0, string.char(unpack(digits, 1, LANES)), clock[1], clock[2], ids or {}, records or {}, again}
