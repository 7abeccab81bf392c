-- Store one new job that is due at once and has no extras: by far the most frequent of its kind, so it has a road of its
-- own with few commands, functions and texts (see exchange.lua). Whatever is not plain is left to enqueue.lua.
-- KEYS 1 jobs  2 ids  3 queues  4 stats  5 heads  6 bells
-- ARGV 1 id  2 queue  3 priority  4 body (the record from the priority on)
-- Returns 1: it is pending; 0: nothing was done, enqueue.lua must decide; -1: the same, and it is likely to go on.
local call, pcall_redis = redis.call, redis.pcall
local JOBS, IDS, QUEUES, STATS, HEADS, BELLS = unpack(KEYS)
local ROOT = string.sub(JOBS, 1, -5)
--! include ids
local id, queue, body = ARGV[1], ARGV[2], ARGV[4]
local pending = ROOT .. 'pending:' .. queue
local SPAN = 70368744177664 -- 2^46, as in parts/places.lua

-- known: "paused:max_pending"; a queue that is new, limited or closed by a move takes the other road, and so does waiting
-- that counts
local known = call('HGET', QUEUES, queue)
if not known then return 0 end
if known ~= '0:0' and known ~= '1:0' then return -1 end
local ageing = call('HGET', STATS, 'ageing')
if ageing and tonumber(ageing) ~= 0 then return -1 end
local block = block_of(id)
local is_open = known == '0:0'
local classes = is_open and call('ZRANGE', BELLS, '0', '-1')
local clock = call('TIME')
local NOW = tonumber(clock[1]) + tonumber(clock[2]) / 1000000

-- from here on it writes: the first write is one that a full store refuses, and where a key is broken or the id is there
-- already, all is taken back
local seq = pcall_redis('HINCRBY', STATS, 'seq', '1')
if type(seq) == 'table' then
  if string.find(seq.err, 'not an integer', 1, true) then return 0 end
  return seq
end
if pcall_redis('HSETNX', JOBS, id, struct.pack('>Bdd', 0, NOW, seq) .. body) ~= 1 then
  call('HINCRBY', STATS, 'seq', '-1')
  return 0
end
local priority = tonumber(ARGV[3])
local rank = string.format('%d', (100 - priority) * SPAN + seq) -- a number argument costs the server a longer printf
local stood = pcall_redis('ZADD', pending, rank, id)
local led = is_open and type(stood) ~= 'table' and pcall_redis('ZADD', HEADS, 'LT', rank, queue)
if type(stood) == 'table' or type(led) == 'table' then
  pcall_redis('ZREM', pending, id)
  call('HDEL', JOBS, id)
  call('HINCRBY', STATS, 'seq', '-1')
  return 0
end
enlist(id, seq, block)
local counter = string.format('h:%d:enqueued', NOW / 3600)
if type(pcall_redis('HINCRBY', STATS, counter, '1')) == 'table' then call('HSET', STATS, counter, '1') end
if not is_open then return 1 end

-- ring each class that serves it ("min:max:mode:US queue US ... US", mode * = all but, = only), as parts/places.lua does
local name = '\31' .. queue .. '\31'
for _, class in ipairs(classes) do
  local low, high, mode, names_at = string.match(class, '^(%d+):(%d+):([*=]):()')
  if low and (string.find(class, name, names_at, true) == nil) == (mode == '*') and priority >= tonumber(low)
    and priority <= tonumber(high) then
    local bell = ROOT .. 'bell:' .. class
    if pcall_redis('LLEN', bell) == 0 then pcall_redis('RPUSH', bell, '1') end
  end
end
return 1
