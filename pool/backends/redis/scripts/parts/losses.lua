-- What becomes of a job that lost its holder: jobs/retry.py after_loss, rule by rule.
local MAX_POOL_LOSSES = 10

-- Returns move ('abandon', 'release', 'fail') and reason; changes the counts in `s`.
local function after_loss(s, record, reason, started, board_lost, shared)
  if has(s.flags, F_CANCEL) or reason == 'cancelled' then return 'abandon', 'cancelled' end
  if not started then return 'release', reason end
  if record.max_retries == 0 then return 'fail', reason end
  if reason == 'interrupted' then return 'release', reason end
  if board_lost then
    s.losses = s.losses + 1
    return s.losses >= MAX_POOL_LOSSES and 'fail' or 'release', reason
  end
  if shared and reason == 'worker_lost' then
    if not has(s.flags, F_ALONE) then s.flags = s.flags + F_ALONE end
    return 'release', reason
  end
  if reason == 'worker_lost' then
    s.kills = s.kills + 1
    if s.kills >= record.max_kills then return 'fail', reason end
  end
  if s.retries >= record.max_retries then return 'fail', reason end
  return 'release', reason, 1 -- one retry used, counted after the attempt is written down
end

-- The job in `lane` (an entry of the pool's hash) if it is truly held there: state and record.
local function held_by(lane, lane_text)
  if lane.id == '' then return nil end
  local s = state_of(lane.id)
  if not s or s.status ~= RUNNING or s.lane ~= lane_text or s.claim ~= lane.claim then return nil end
  return s, read_record(call('HGET', JOBS, lane.id))
end

-- Take a held job back; returns {id, status, worker, reason} for the answer. `loss`: reason, board_lost, shared, tail
-- (frames of the cause), error (frames for the job).
local function take_back(id, s, record, started, loss)
  count_running(s.queue, '-1')
  local worker = s.lane
  if not record or loss.reason == 'invalid_record' then
    finish(id, s, FAILED, 'invalid_record', record)
    return {id, 'failed', worker, 'invalid_record'}
  end
  local move, reason, used = after_loss(s, record, loss.reason, started, loss.board_lost, loss.shared)
  if started then
    if has(s.flags, F_ALONE) and not loss.shared then s.flags = s.flags - F_ALONE end
    if s.started < s.claimed then s.started = s.claimed end
    remember(id, s, move == 'abandon' and 'x' or (loss.reason == 'interrupted' and 'b' or 'l'), loss.tail)
    s.tail = merge_frames(s.tail, loss.error)
  end
  s.retries = s.retries + (used or 0)
  if move == 'abandon' then
    finish(id, s, CANCELLED, reason, record)
  elseif move == 'fail' then
    finish(id, s, FAILED, reason, record)
  else
    if used then count('retried') end
    put_back(id, s, record, 0)
  end
  return {id, move == 'release' and 'pending' or NAMES[s.status], worker, reason}
end

-- Complete a job whose lane had done so and could not say it: `word` has started_at and the frames of its result.
local function complete(id, s, record, word, output)
  count_running(s.queue, '-1')
  if has(s.flags, F_ALONE) then s.flags = s.flags - F_ALONE end
  s.started, s.tail = word.started, merge_frames(s.tail, word.tail)
  if output == '' then s.flags = s.flags + F_PLAIN else remember(id, s, 'c', output) end
  local worker = s.lane
  finish(id, s, COMPLETED, nil, record)
  return {id, NAMES[COMPLETED], worker, 'finished'}
end
