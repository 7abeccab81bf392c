-- Where waiting jobs stand. Ranks are numbers: (100 - priority) * 2^46 + sequence, so the lowest is the next, and equal
-- priorities are first in, first out. heads and dues hold lower bounds per queue; a reader corrects them when it must.
-- A rank from HELD_FROM on is out of sight: its job waits for room under its limit (parts/limits.lua).
-- With ageing (STATS ageing: microseconds that a point of priority is worth) heads hold other bounds, all below zero:
-- the place of a job is its time less its priority, and of each priority of a queue the first is looked at.
local SPAN = 70368744177664 -- 2^46
local HELD_FROM = 105 * SPAN
local AGED_FROM = 4000000000000000 -- microseconds: 2096
local KEEPER = '0:100:=:' -- the class of those who sleep until the next time: it serves no queue (pool/backends/redis/ear.py)
local touched = {} -- queue -> {lowest rank, priorities that became ready}: to be rung

local settings_seen = {}
local function settings(queue)
  local known = settings_seen[queue]
  if known then return known end
  local paused, limit = string.match(call('HGET', QUEUES, queue) or '', '^(%d):(%d+)$')
  known = {known = paused ~= nil, paused = (paused or '0') ~= '0', max_pending = tonumber(limit or 0)}
  settings_seen[queue] = known
  return known
end

local function lower(index, queue, score)
  local bound = call('ZSCORE', index, queue)
  if not bound or score < tonumber(bound) then call('ZADD', index, score, queue) end
end

local function rank_of(priority, seq) return (100 - priority) * SPAN + seq end

local grain_seen
local function grain()
  grain_seen = grain_seen or tonumber(call('HGET', STATS, 'ageing') or 0)
  return grain_seen
end

-- Where a pending job stands when waiting counts; nil for a record that cannot be read (which is met first).
local function aged_place(id, class)
  local record = read_record(call('HGET', JOBS, id))
  local created = record and record.created or 0
  return created * 1000000 - (100 - class) * grain() - AGED_FROM
end

-- The best place in a queue from rank `low` to `high` when waiting counts: id and place.
local function aged_first(queue, low, high)
  local best, best_id
  while true do
    local first = call('ZRANGEBYSCORE', ROOT .. 'pending:' .. queue, low, high, 'WITHSCORES', 'LIMIT', '0', '1')
    local rank = tonumber(first[2])
    if not rank or rank >= HELD_FROM then return best_id, best end
    local class = math.floor(rank / SPAN)
    local place = aged_place(first[1], class)
    if not best or place < best then best, best_id = place, first[1] end
    low = string.format('%d', (class + 1) * SPAN)
  end
end

local function stand_pending(id, queue, priority, seq)
  local rank = rank_of(priority, seq)
  call('ZADD', ROOT .. 'pending:' .. queue, rank, id)
  local mark = touched[queue]
  if not mark then
    mark = {rank = rank, priorities = {}}
    touched[queue] = mark
  end
  if rank < mark.rank then mark.rank = rank end
  mark.priorities[priority] = true
end

-- A time has come into the store. One sooner than all before is told to a keeper, who sleeps until the first it knows.
local keeper_sleeps, is_sooner = true, false
local function note_time(index, at)
  if is_sooner or not keeper_sleeps then return end
  local first = call('ZRANGE', index, '0', '0', 'WITHSCORES')[2]
  is_sooner = not first or at < tonumber(first)
end

local function stand_scheduled(id, queue, due)
  note_time(DUES, due)
  call('ZADD', ROOT .. 'scheduled:' .. queue, due, id)
  lower(DUES, queue, due)
end

-- Take a waiting job out of every place it may stand in.
local function leave_place(id, queue)
  call('ZREM', ROOT .. 'pending:' .. queue, id)
  call('ZREM', ROOT .. 'scheduled:' .. queue, id)
  call('ZREM', ROOT .. 'late:' .. queue, id)
end

-- Whether worker class `class` ("min:max:mode:US queue US ... US", mode * = all but, = only) serves a touched queue.
local function hears(class, queue, priorities)
  local low, high, mode, names = string.match(class, '^(%d+):(%d+):(.):(.*)$')
  if not low then return false end
  local listed = string.find(names, '\31' .. queue .. '\31', 1, true) ~= nil
  if listed == (mode == '*') then return false end
  low, high = tonumber(low), tonumber(high)
  for priority in pairs(priorities) do
    if priority >= low and priority <= high then return true end
  end
  return false
end

-- A bell is a flag: at most one token. A broken bell costs a wait of a second, never the step.
local function ring(class)
  local key = ROOT .. 'bell:' .. class
  local tokens = pcall_redis('LLEN', key)
  if tokens == 0 then pcall_redis('RPUSH', key, '1') end
end

-- Correct the heads for what was put down in this step and ring every class that serves it. The last act of a step.
local function announce()
  local classes
  for queue, mark in pairs(touched) do
    if not settings(queue).paused then
      if grain() > 0 then
        local _, place = aged_first(queue, '0', '+inf')
        if place then lower(HEADS, queue, place) end
      else
        lower(HEADS, queue, mark.rank)
      end
      classes = classes or call('ZRANGE', BELLS, '0', '-1')
      for _, class in ipairs(classes) do
        if hears(class, queue, mark.priorities) then ring(class) end
      end
    end
  end
  touched = {}
  if is_sooner and call('ZSCORE', BELLS, KEEPER) then ring(KEEPER) end
  is_sooner = false
end
