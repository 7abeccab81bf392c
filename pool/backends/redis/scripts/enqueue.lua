-- Store all jobs or none.
-- KEYS 1-14 as in parts/keys.lua
-- ARGV 1 refuse_above (-1: no limit)  2 on: five per job (parts/intake.lua)
-- Returns one element per job: "p" (new, pending), "s" (new, scheduled), or {id, status, payload differs};
--      or {"full", queue, pending, limit} and nothing is changed.
--! include keys checks records places intake
check_all()
local refuse_above = tonumber(ARGV[1])

local function queues_of_batch()
  local fresh = {}
  for at = 2, #ARGV, JOB_ARGS do
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
  for at = 2, #ARGV, JOB_ARGS do
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

local answers, seq = {}, 0
if total > 0 then
  seq = next_sequence(total)
  count('enqueued', 0)
end
local stored = 0
for at = 2, #ARGV, JOB_ARGS do
  local id, raw = ARGV[at], ARGV[at + 4]
  local extras = raw == '' and {} or read_frames(raw)
  local first, status, differs = earlier(id, extras)
  if first then
    answers[#answers + 1] = {first, status, differs and 1 or 0}
  else
    stored = stored + 1
    local placed = store(id, ARGV[at + 1], tonumber(ARGV[at + 2]), ARGV[at + 3], raw, extras, seq + stored)
    answers[#answers + 1] = placed == 'pending' and 'p' or 's'
  end
end
if stored > 0 then count('enqueued', stored) end
announce()
return answers
