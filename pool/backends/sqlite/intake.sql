-- What producers and operators do.

-- name: last rank
SELECT max(rank) FROM jobs;

-- name: add job
INSERT INTO jobs (rank, id, status, watched, queue, priority, type, max_retries, max_kills, timeout, run_at, expires_at,
  created_at, owner, idempotency_key, unique_key, parent, follow_ups, limited, batch, payload)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: add plain job
INSERT INTO jobs (rank, id, status, queue, priority, type, max_retries, max_kills, timeout, created_at, payload)
VALUES (?, ?, 1, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: book one plain job
UPDATE queues SET pending = pending + 1, now_enqueued = now_enqueued + 1
WHERE id = ? AND hour = ? AND paused < 2 AND (max_pending = 0 OR pending < max_pending)
  AND NOT EXISTS (SELECT 1 FROM jobs WHERE rank >= ?);

-- name: status by id
SELECT status FROM jobs WHERE id = ?;

-- name: live by unique key
SELECT id, status FROM jobs WHERE unique_key = ? AND watched <= 2;

-- name: idempotency
SELECT i.id, i.digest, coalesce(j.status, i.final, 3) FROM idempotency i LEFT JOIN jobs j ON j.id = i.id
WHERE i.owner = ? AND i.key = ?;

-- name: add idempotency
INSERT INTO idempotency (owner, key, id, digest, created_at) VALUES (?, ?, ?, ?, ?);

-- name: queue room
SELECT pending, max_pending, paused FROM queues WHERE id = ?;

-- name: for an order
SELECT rank, status, queue, priority, flags, unique_key, owner, limited, batch, history FROM jobs WHERE id = ?;

-- name: end unstarted
UPDATE jobs SET status = ?, watched = ?, reason = ?, error = coalesce(?, error), updated_at = ?, finished_at = ?
WHERE rank = ? RETURNING limited, batch;

-- name: flag
UPDATE jobs SET flags = flags | ?, updated_at = ? WHERE rank = ?;

-- name: revive
UPDATE jobs SET status = ?, watched = ?, retries = 0, kills = 0, misfits = 0, losses = 0, flags = 0, lane = NULL, run_at = NULL,
  expires_at = NULL, claimed_at = NULL, started_at = NULL, finished_at = NULL, reason = NULL, result = NULL,
  progress = NULL, progress_note = NULL, updated_at = ?, payload = coalesce(?, payload), history = ?
WHERE rank = ?;

-- name: set queue
UPDATE queues SET is_set = 1, paused = coalesce(?, paused), max_pending = coalesce(?, max_pending) WHERE id = ?;

-- name: purgeable pending
SELECT rank, status, owner, idempotency_key FROM jobs WHERE status = 1 AND status = ? AND queue = ? AND rank <= ? LIMIT ?;

-- name: purgeable scheduled
SELECT rank, status, owner, idempotency_key FROM jobs WHERE watched = 0 AND watched = ? AND queue = ? AND +rank <= ? LIMIT ?;

-- name: purgeable finished
SELECT rank, status, owner, idempotency_key FROM jobs
WHERE status >= 3 AND status = ? AND queue = ? AND +rank <= ? LIMIT ?;

-- name: keep final state
UPDATE idempotency SET final = ? WHERE owner = ? AND key = ? AND id = (SELECT id FROM jobs WHERE rank = ?);

-- name: delete job
DELETE FROM jobs WHERE rank = ? RETURNING limited, batch;

-- name: purgeable held back
SELECT rank, status, owner, idempotency_key FROM jobs
WHERE limited IS NOT NULL AND status = -1 AND status = ? AND queue = ? AND +rank <= ? LIMIT ?;

-- name: deletable
SELECT rank, status, owner, idempotency_key, queue FROM jobs WHERE id = ? AND status <> 2;
