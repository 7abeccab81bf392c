-- One job. Reads only.
-- KEYS 1-14 as in parts/keys.lua
-- ARGV 1 job id
-- Returns as parts/telling.lua.
--! include keys records telling
return tell(ARGV[1])
