-- Record a tick of a schedule entry and enqueue its job in one step.
-- KEYS 1-14 as in parts/keys.lua, 15 ticks (hash: name -> "due version", due as %.6f)
-- ARGV 1 schedule  2 version  3 due  4 on: the job (five, parts/intake.lua), or nothing
-- Returns {} when this or a later tick is known; {"ok"} without a job; else {"ok", id, status, replayed, differs}.
-- While the store is moved: refused with {"moving", mark}.
--! include keys checks ids records places limits intake batches moving
local TICKS, TICK_JOBS = KEYS[15], ROOT .. 'tick_jobs' -- the second: name -> id of the last job
check_all()
local moving = mark_of_move()
if moving then return {'moving', moving} end
call('HLEN', TICK_JOBS)
if ARGV[4] then check_queue(ARGV[5]) end
local known = call('HGET', TICKS, ARGV[1])
local last = known and tonumber(string.match(known, '^%S+'))
if last and tonumber(ARGV[3]) <= last then return {} end
call('HSET', TICKS, ARGV[1], ARGV[3] .. ' ' .. ARGV[2])
if not ARGV[4] then return {'ok'} end
local extras = ARGV[8] == '' and {} or read_frames(ARGV[8])
local first, status, differs = earlier(ARGV[4], extras)
call('HSET', TICK_JOBS, ARGV[1], first or ARGV[4])
if first then return {'ok', first, status, 1, differs and 1 or 0} end
count('enqueued')
local placed = store(ARGV[4], ARGV[5], tonumber(ARGV[6]), ARGV[7], ARGV[8], extras, next_sequence(1) + 1)
announce()
return {'ok', ARGV[4], placed, 0, 0}
