-- Make a worker class known, so that its bell is rung. Classes that nobody has named for a day are forgotten.
-- KEYS 1-14 as in parts/keys.lua
-- ARGV 1 class
-- Returns nothing.
--! include keys
call('ZADD', BELLS, NOW_TEXT, ARGV[1])
call('ZREMRANGEBYSCORE', BELLS, '-inf', NOW - 86400)
