-- The mark of a store that is moved (backends/moving.py), or nil. While it stands, queues are closed: 2 is added to their
-- "paused" (1: by a person), and there are no heads.
local MOVING = ROOT .. 'moving'
local function mark_of_move() return call('HGET', MOVING, 'mark') or nil end
