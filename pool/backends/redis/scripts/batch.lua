-- A batch by its members' states. Reads only.
-- KEYS 1-14 as in parts/keys.lua
-- ARGV 1 id of the batch
-- Returns {} or {total, completed, failed, cancelled, created}.
--! include keys
local b = call('HMGET', ROOT .. 'batch:' .. ARGV[1], 'total', 'completed', 'failed', 'cancelled', 'created')
if not b[1] then return {} end
return {tonumber(b[1]), tonumber(b[2] or 0), tonumber(b[3] or 0), tonumber(b[4] or 0), b[5] or '0'}
