-- Take over settings, ticks, counters, batches and the audit log of another store, once.
-- KEYS 1-14 as in parts/keys.lua, 15 ticks
-- ARGV 1 the mark as it must stand  2 the mark that says it is done  3 on: a command per entry, after its count of words:
--      HSET or HINCRBY or ZADD or RPUSH, a key without its root, and the rest
-- Returns 1, or 0 when the mark is another.
--! include keys checks records moving
check_all()
if mark_of_move() ~= ARGV[1] then return 0 end
local CHECKS = {HSET = 'HLEN', HINCRBY = 'HLEN', ZADD = 'ZCARD', RPUSH = 'LLEN'}
local function each(act)
  local at = 3
  while ARGV[at] do
    local words = tonumber(ARGV[at])
    act(ARGV[at + 1], ROOT .. ARGV[at + 2], at + 3, at + words)
    at = at + words + 1
  end
end
each(function(command, key) call(CHECKS[command], key) end)
call('HINCRBY', STATS, 'seq', 0) -- refused by a full store
each(function(command, key, first, last) call(command, key, unpack(ARGV, first, last)) end)
call('HSET', MOVING, 'mark', ARGV[2])
return 1
