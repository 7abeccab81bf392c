-- The end of a migration step, which defines before it
--   portion(cursor, most): brings at most so many things to the new form, from the cursor ('' at first) on; returns the
--   next cursor, or nil when all is done. What it meets a second time it must leave alone.
-- KEYS 15 schema   ARGV 1 the version it leads to  2 how many at most
-- Returns 1 when the step is done (by whomever), else 0.
local SCHEMA, TARGET = KEYS[15], tonumber(ARGV[1])
local found = tonumber(call('HGET', SCHEMA, 'version') or 1)
local cursor = call('HGET', SCHEMA, 'cursor')
if found > TARGET or (found == TARGET and not cursor) then return 1 end
if found < TARGET - 1 then return redis.error_reply('ERR a step of the schema was left out') end
if found < TARGET then call('HSET', SCHEMA, 'version', TARGET, 'cursor', '') end
local rest = portion(cursor or '', tonumber(ARGV[2]))
if not rest then
  call('HDEL', SCHEMA, 'cursor')
  return 1
end
call('HSET', SCHEMA, 'cursor', rest)
return 0
