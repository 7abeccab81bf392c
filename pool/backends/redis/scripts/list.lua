-- Jobs newest first (by id), without attempts. Reads only; looks at a bounded number of jobs per call.
-- KEYS 1-14 as in parts/keys.lua
-- ARGV 1 start after this id ("" = newest)  2 limit  3 how many to look at
--      4 status  5 type  6 queue  7 owner  8 reason  9 text, in any (ASCII) case (each "" = any, else "=" and the value)
--      10 finished before ("" = any)  11 id of the batch ("" = any)
-- Returns {next id to start after ("" = this was the last), jobs...}, each {id, status, record, state}.
--! include keys checks ids listing records telling
local after, limit, budget = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local function wanted(at) return ARGV[at] ~= '' and string.sub(ARGV[at], 2) or nil end
local STATUS, TYPE, QUEUE, OWNER, REASON, TEXT = wanted(4), wanted(5), wanted(6), wanted(7), wanted(8), wanted(9)
local BEFORE = tonumber(ARGV[10])

local function as_uuid(id)
  local hex = string.gsub(id, '.', function(c) return string.format('%02x', string.byte(c)) end)
  return table.concat({string.sub(hex, 1, 8), string.sub(hex, 9, 12), string.sub(hex, 13, 16), string.sub(hex, 17, 20),
    string.sub(hex, 21)}, '-')
end

local function holds_text(id, raw, type_name, s, record)
  local sought = string.lower(TEXT)
  local function found(where) return where and string.find(string.lower(where), sought, 1, true) ~= nil end
  if found(type_name) or found(as_uuid(id)) or (record and found(string.sub(raw, record.payload_at))) then return true end
  return s ~= nil and found(read_frames(s.tail).e)
end

local function fits(id, raw, record, s, status)
  if STATUS and status ~= STATUS then return false end
  local type_name = record and string.sub(raw, record.type_at, record.type_at + record.type_n - 1) or ''
  if TYPE and type_name ~= TYPE then return false end
  if QUEUE and (record or s or {}).queue ~= QUEUE then return false end
  if OWNER and (not record or owner_of(raw, record) ~= OWNER) then return false end
  if REASON and (not s or read_frames(s.tail).w ~= REASON) then return false end
  if BEFORE and (not s or s.finished == 0 or s.finished >= BEFORE) then return false end
  return not TEXT or holds_text(id, raw, type_name, s, record)
end

-- Where few jobs have the wanted status, they are sorted here instead of looking through all ids.
local SMALL = 5000

-- What the lanes say they hold (each once): the running jobs, and what lanes have not heard of yet.
local function held_ids()
  local ids, seen = {}, {}
  for _, pool in ipairs(call('ZRANGE', POOLS, '0', '-1')) do
    local entries = call('HGETALL', ROOT .. 'pool:' .. pool)
    for at = 1, #entries, 2 do
      local id = string.find(entries[at], '^%d+%.%d+/%d+$') and read_lane(entries[at + 1]).id or ''
      if id ~= '' and not seen[id] then
        seen[id] = true
        ids[#ids + 1] = id
      end
    end
  end
  return ids
end

local function ids_in(queue)
  return call(STATUS == 'completed' and 'LRANGE' or 'ZRANGE', ROOT .. STATUS .. ':' .. queue, '0', '-1')
end

local function few_ids()
  if not STATUS then return nil end
  local is_held, total = STATUS == 'running', 0
  local queues = QUEUE and {QUEUE} or call('HKEYS', QUEUES)
  for _, queue in ipairs(queues) do
    total = total + (is_held and running_in(queue) or count_in(STATUS .. ':', queue))
  end
  if total > SMALL then return nil end
  local ids = {}
  local function take(found)
    for _, id in ipairs(found) do
      if after == '' or id < after then ids[#ids + 1] = id end
    end
  end
  if is_held then take(total > 0 and held_ids() or {}) else for _, queue in ipairs(queues) do take(ids_in(queue)) end end
  table.sort(ids, function(one, other) return one > other end)
  return ids
end

local function next_ids()
  if ARGV[11] ~= '' then
    return call('ZREVRANGEBYLEX', ROOT .. 'members:' .. ARGV[11], after == '' and '+' or '(' .. after, '-', 'LIMIT', 0, budget)
  end
  return ids_from(after, budget, false)
end

local few = ARGV[11] == '' and few_ids() or nil
local ids = few or next_ids()
local answer, looked = {''}, 0
for _, id in ipairs(ids) do
  looked = looked + 1
  local raw, kept = call('HGET', JOBS, id), call('HGET', STATE, id)
  if raw or kept then
    local record, s = read_record(raw), kept and read_state(kept) or nil
    local queue = record and record.queue or (s and s.queue)
    local status = queue and status_name(id, s, queue) or 'failed'
    if fits(id, raw or '', record, s, status) then answer[#answer + 1] = {id, status, raw or '', kept or ''} end
  end
  if #answer > limit then break end
end
local has_more = looked < #ids or (not few and #ids == budget)
if has_more then answer[1] = ids[looked] end
return answer
