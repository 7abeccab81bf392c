-- Where waiting jobs stand. Ranks are numbers: (100 - priority) * 2^46 + sequence, so the lowest is the next, and equal
-- priorities are first in, first out. heads and dues hold lower bounds per queue; a reader corrects them when it must.
local SPAN = 70368744177664 -- 2^46
local touched = {} -- queue -> {lowest rank, priorities that became ready}: to be rung

local settings_seen = {}
local function settings(queue)
  local known = settings_seen[queue]
  if known then return known end
  local paused, limit = string.match(call('HGET', QUEUES, queue) or '', '^(%d):(%d+)$')
  known = {known = paused ~= nil, paused = paused == '1', max_pending = tonumber(limit or 0)}
  settings_seen[queue] = known
  return known
end

local function lower(index, queue, score)
  local bound = call('ZSCORE', index, queue)
  if not bound or score < tonumber(bound) then call('ZADD', index, score, queue) end
end

local function stand_pending(id, queue, priority, seq)
  local rank = (100 - priority) * SPAN + seq
  call('ZADD', ROOT .. 'pending:' .. queue, rank, id)
  local mark = touched[queue]
  if not mark then
    mark = {rank = rank, priorities = {}}
    touched[queue] = mark
  end
  if rank < mark.rank then mark.rank = rank end
  mark.priorities[priority] = true
end

local function stand_scheduled(id, queue, due)
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
      lower(HEADS, queue, mark.rank)
      classes = classes or call('ZRANGE', BELLS, '0', '-1')
      for _, class in ipairs(classes) do
        if hears(class, queue, mark.priorities) then ring(class) end
      end
    end
  end
  touched = {}
end
