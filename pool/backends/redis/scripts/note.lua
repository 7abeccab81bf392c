-- Append to the audit log.
-- KEYS 1-14 as in parts/keys.lua
-- ARGV 1 who  2 act  3 details (JSON)  4 how many entries are kept
-- Returns nothing.
--! include keys
local audit = ROOT .. 'audit'
call('RPUSH', audit, struct.pack('>dI', NOW, #ARGV[1]) .. ARGV[1] .. struct.pack('>I', #ARGV[2]) .. ARGV[2] .. ARGV[3])
call('LTRIM', audit, '-' .. ARGV[4], '-1')
