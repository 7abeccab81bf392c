-- What a lane does: find itself, settle, take the next job.

-- name: lane by name
SELECT l.id, l.request, l.settled, l.held, l.claim, l.barred, l.lease FROM lanes l JOIN pools p ON p.id = l.pool
WHERE p.name = ? AND p.host = ? AND p.incarnation = ? AND l.slot = ? AND l.generation = ? AND l.lane = ?;

-- name: find pool
SELECT id FROM pools WHERE name = ? AND host = ? AND incarnation = ?;

-- name: add pool
INSERT INTO pools (name, host, incarnation, beat_boot, boot, lease, pid, ticks, namespace)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id;

-- name: is barred
SELECT 1 FROM bars WHERE pool = ? AND slot = ? AND generation >= ?;

-- name: add lane
INSERT INTO lanes (pool, slot, generation, lane, barred, boot, pid, ticks, namespace)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id;

-- name: lane answered
UPDATE lanes SET request = ?, settled = ?, held = ?, claim = ?, claimed_boot = ?
WHERE id = ? AND request = ? AND held IS ? AND claim = ? AND barred = ?;

-- name: lane lease
UPDATE lanes SET lease = ?, expires_boot = ? WHERE id = ?;

-- name: forget lane
DELETE FROM lanes WHERE id = ?;

-- name: for a settlement
SELECT id, queue, priority, retries, max_retries, kills, max_kills, misfits, losses, flags, follow_ups, history, claimed_at,
  limited, batch
FROM jobs WHERE rank = ? AND status = 2;

-- name: leave running
UPDATE jobs SET status = ?, watched = ?, lane = ?, retries = ?, kills = ?, misfits = ?, losses = ?, flags = ?,
  run_at = CASE ? WHEN 0 THEN ? WHEN 1 THEN NULL ELSE run_at END, updated_at = ?, claimed_at = ?, started_at = ?,
  finished_at = ?, reason = ?, error = coalesce(?, error), exception = coalesce(?, exception), result = ?, history = ?
WHERE rank = ?;

-- name: complete
UPDATE jobs SET status = 3, watched = 3, lane = NULL, flags = 0, started_at = ?, finished_at = ?, result = ?, history = ?
WHERE rank = ?;

-- name: complete at first try
UPDATE jobs SET status = 3, lane = NULL, flags = 0, started_at = ?, finished_at = ?, result = ?, history = ?
WHERE rank = ? AND status = 2 AND watched IS NULL AND history IS NULL AND follow_ups IS NULL;

-- name: next of any
SELECT j.rank, j.id, j.type, j.queue, j.payload, j.priority, j.claims, j.retries, j.max_retries, j.kills, j.misfits,
  j.timeout, j.created_at, j.checkpoint, j.owner, j.flags, j.expires_at, j.follow_ups, q.pending,
  (SELECT min(run_at) FROM jobs WHERE watched = 0), q.ageing, j.limited, j.history IS NULL, j.watched
FROM queues q CROSS JOIN jobs j ON j.rank = (
  SELECT rank FROM jobs WHERE status = 1 AND queue = q.id AND priority BETWEEN ? AND ? ORDER BY priority DESC, rank LIMIT 1)
WHERE q.pending > 0 AND NOT q.paused
ORDER BY j.priority DESC, j.rank LIMIT 1;

-- name: next of any but
SELECT j.rank, j.id, j.type, j.queue, j.payload, j.priority, j.claims, j.retries, j.max_retries, j.kills, j.misfits,
  j.timeout, j.created_at, j.checkpoint, j.owner, j.flags, j.expires_at, j.follow_ups, q.pending,
  (SELECT min(run_at) FROM jobs WHERE watched = 0), q.ageing, j.limited, j.history IS NULL, j.watched
FROM queues q CROSS JOIN jobs j ON j.rank = (
  SELECT rank FROM jobs WHERE status = 1 AND queue = q.id AND priority BETWEEN ? AND ? ORDER BY priority DESC, rank LIMIT 1)
WHERE q.pending > 0 AND NOT q.paused AND q.name NOT IN (?)
ORDER BY j.priority DESC, j.rank LIMIT 1;

-- name: next of list
SELECT j.rank, j.id, j.type, j.queue, j.payload, j.priority, j.claims, j.retries, j.max_retries, j.kills, j.misfits,
  j.timeout, j.created_at, j.checkpoint, j.owner, j.flags, j.expires_at, j.follow_ups, q.pending,
  (SELECT min(run_at) FROM jobs WHERE watched = 0), q.ageing, j.limited, j.history IS NULL, j.watched
FROM json_each(?) w CROSS JOIN queues q ON q.id = w.value CROSS JOIN jobs j ON j.rank = (
  SELECT rank FROM jobs WHERE status = 1 AND queue = q.id AND priority BETWEEN ? AND ? ORDER BY priority DESC, rank LIMIT 1)
WHERE q.pending > 0 AND NOT q.paused
ORDER BY w.key LIMIT 1;

-- name: next of queue
SELECT j.rank, j.id, j.type, j.queue, j.payload, j.priority, j.claims, j.retries, j.max_retries, j.kills, j.misfits,
  j.timeout, j.created_at, j.checkpoint, j.owner, j.flags, j.expires_at, j.follow_ups, NULL, NULL, 0, j.limited, j.history IS NULL, j.watched
FROM jobs j WHERE j.status = 1 AND j.queue = ? AND j.priority BETWEEN ? AND ? ORDER BY j.priority DESC, j.rank LIMIT ?;

-- name: held job
SELECT j.rank, j.id, j.type, j.queue, j.payload, j.priority, j.claims, j.retries, j.max_retries, j.kills, j.misfits,
  j.timeout, j.created_at, j.checkpoint, j.owner, j.flags, j.expires_at, j.follow_ups, j.claimed_at
FROM jobs j WHERE j.rank = ? AND j.status = 2;

-- name: take
UPDATE jobs SET status = 2, lane = ?, claims = ?, flags = flags & 2, claimed_at = ?, started_at = NULL,
  progress = NULL, progress_note = NULL
WHERE rank = ?;

-- name: take watched
UPDATE jobs SET status = 2, watched = 2, lane = ?, claims = ?, flags = flags & 2, claimed_at = ?, started_at = NULL,
  progress = NULL, progress_note = NULL
WHERE rank = ?;

-- name: work is left
SELECT 1 FROM queues WHERE NOT paused AND pending > (id = ?) LIMIT 1;

-- name: elsewhere
SELECT 1 FROM queues WHERE pending > 0 AND id <> ? AND NOT paused LIMIT 1;

-- name: due
SELECT rank, queue, priority, limited FROM jobs WHERE watched = 0 AND run_at <= ? ORDER BY run_at LIMIT ?;

-- name: promote
UPDATE jobs SET status = ?, watched = ?, updated_at = ? WHERE rank = ?;

-- name: next due
SELECT min(run_at) FROM jobs WHERE watched = 0;

-- name: held by
SELECT l.id, j.rank, j.flags FROM lanes l JOIN jobs j ON j.rank = l.held
JOIN pools p ON p.id = l.pool
WHERE j.id = ? AND l.claim = ? AND p.name = ? AND p.host = ? AND p.incarnation = ?
  AND l.slot = ? AND l.generation = ? AND l.lane = ?;

-- name: report
UPDATE jobs SET progress = coalesce(?, progress), progress_note = coalesce(?, progress_note),
  checkpoint = coalesce(?, checkpoint), updated_at = ? WHERE rank = ?;

-- name: renew lane
UPDATE lanes SET expires_boot = ? + lease WHERE id = ? AND lease IS NOT NULL;
