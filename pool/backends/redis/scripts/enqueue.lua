-- Store all jobs or none.
-- KEYS 1-14 as in parts/keys.lua
-- ARGV 1 refuse_above (-1: no limit)  2 id of the batch ("" none)  3, 4 its callbacks, packed ("" none)
--      5 on: five per job (parts/intake.lua)
-- Returns one element per job: "p" (new, pending), "s" (new, scheduled), or {id, status, payload differs};
--      or {"full", queue, pending, limit} or {"closed"} (the batch is stored, without these jobs) and nothing is changed.
-- While the store is moved: refused with {"moving", mark}.
--! include keys checks ids records places limits intake batches moving
check_all()
local moving = mark_of_move()
if moving then return {'moving', moving} end
local refuse_above = tonumber(ARGV[1])

local function queues_of_batch()
  local fresh = {}
  for at = 5, #ARGV, JOB_ARGS do
    local queue = ARGV[at + 1]
    if fresh[queue] == nil then
      check_queue(queue)
      fresh[queue] = {count = 0}
    end
  end
  return fresh
end

-- How many jobs are new, per queue.
local function count_new(fresh)
  for at = 5, #ARGV, JOB_ARGS do
    local raw = ARGV[at + 4]
    local extras = raw == '' and {} or read_frames(raw)
    if not earlier(ARGV[at], extras) then
      local tally = fresh[ARGV[at + 1]]
      tally.count = tally.count + 1
    end
  end
end

local function refusal(fresh)
  for queue, tally in pairs(fresh) do
    local limit = settings(queue).max_pending
    if tally.count > 0 and (refuse_above >= 0 or limit > 0) then
      local pending = call('ZCARD', ROOT .. 'pending:' .. queue)
      if refuse_above >= 0 and pending > refuse_above then return {'full', queue, pending, refuse_above} end
      if limit > 0 and pending + tally.count > limit then return {'full', queue, pending, limit} end
    end
  end
end

local fresh = queues_of_batch()
count_new(fresh)
local refused = refusal(fresh)
if refused then return refused end
local total = 0
for _, tally in pairs(fresh) do total = total + tally.count end

local BATCH = ARGV[2]
local batch, members = ROOT .. 'batch:' .. BATCH, ROOT .. 'members:' .. BATCH
local is_new_batch = BATCH ~= '' and call('HLEN', batch) == 0
if BATCH ~= '' then
  if not is_new_batch and total > 0 then return {'closed'} end
  call('ZCARD', ROOT .. 'batches')
  call('ZCARD', members)
  for at = 3, 4 do
    if ARGV[at] ~= '' then check_queue_of(ARGV[at]) end
  end
end

local answers, seq = {}, 0
if total > 0 then
  seq = next_sequence(total)
  count('enqueued', 0)
end
local stored = 0
for at = 5, #ARGV, JOB_ARGS do
  local id, raw = ARGV[at], ARGV[at + 4]
  local extras = raw == '' and {} or read_frames(raw)
  local first, status, differs = earlier(id, extras)
  if first then
    answers[#answers + 1] = {first, status, differs and 1 or 0}
  else
    stored = stored + 1
    if is_new_batch then call('ZADD', members, '0', id) end
    local placed = store(id, ARGV[at + 1], tonumber(ARGV[at + 2]), ARGV[at + 3], raw, extras, seq + stored)
    answers[#answers + 1] = placed == 'pending' and 'p' or 's'
  end
end
if stored > 0 then count('enqueued', stored) end
if is_new_batch then
  call('HSET', batch, 'total', stored, 'created', NOW_TEXT)
  if ARGV[3] ~= '' then call('HSET', batch, 'c', ARGV[3]) end
  if ARGV[4] ~= '' then call('HSET', batch, 's', ARGV[4]) end
  call('ZADD', ROOT .. 'batches', NOW_TEXT, BATCH)
  tell_batch(batch)
end
announce()
return answers
