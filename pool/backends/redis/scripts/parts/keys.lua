-- Names of the keys and the one reading of the clock. Every step that moves jobs declares these first:
-- KEYS 1 jobs     hash  id -> record (fixed at enqueue)        8 stats    hash  sequence, totals, hours,
--                                                                     r:queue -> running jobs
--      2 state    hash  id -> state (absent: never claimed)    9 unique   hash  unique key -> id of the live job
--      3 past     hash  id -> attempts                        10 idem     hash  owner NUL key -> id, state, digest
--      4 ids      zset  places of blocks of ids (ids.lua)     11 idem_at  zset  owner NUL key by time
--      5 heads    zset  queue by a lower bound of its ranks   12 bells    zset  worker classes by last sign
--      6 dues     zset  queue by a lower bound of due times   13 expiry   zset  id by the time it must have started
--      7 queues   hash  queue -> "paused:max_pending"         14 pools    zset  pools and holders by last sign
-- Per queue: pending:, scheduled:, late: (promoted, not started), failed:, cancelled: (zsets), and completed:,
-- a list in the order they were completed: nothing but forgetting takes them out, and a list takes a seventh of the room.
-- Per pool: pool: (hash: lanes, bars, beat). Per worker class: bell: (list of at most one).
local call, pcall_redis = redis.call, redis.pcall
local JOBS, STATE, PAST, IDS, HEADS, DUES, QUEUES, STATS, UNIQUE, IDEM, IDEM_AT, BELLS, EXPIRY, POOLS = unpack(KEYS, 1, 14)
local ROOT = string.sub(JOBS, 1, -5)
local clock = call('TIME')
local NOW = tonumber(clock[1]) + tonumber(clock[2]) / 1000000
local NOW_TEXT = clock[1] .. '.' .. string.sub('000000' .. clock[2], -6) -- a number argument costs a printf in the server
