-- What a move to or from another store needs (backends/moving.py). While the mark stands, 2 is added to queues.paused.

-- name: mark
SELECT mark FROM moving;

-- name: take off
DELETE FROM moving;

-- name: put on
INSERT INTO moving (mark) VALUES (?);

-- name: close queues
UPDATE queues SET paused = paused | 2 WHERE paused < 2;

-- name: open queues
UPDATE queues SET paused = paused & 1 RETURNING name, paused;

-- name: count
SELECT (SELECT count(*) FROM jobs), (SELECT count(*) FROM idempotency);

-- name: line
SELECT {columns}, j.history, j.checkpoint, j.follow_ups, l.count, l.per_s, l.max_running
FROM jobs j LEFT JOIN limits l ON l.id = j.limited WHERE j.rank > ? ORDER BY j.rank LIMIT ?;

-- name: put down
INSERT INTO jobs (rank, id, status, watched, queue, priority, type, claims, retries, max_retries, kills, max_kills, misfits, losses,
  flags, timeout, run_at, expires_at, created_at, updated_at, claimed_at, started_at, finished_at, owner, idempotency_key,
  unique_key, parent, reason, error, exception, progress, progress_note, checkpoint, follow_ups, result, history, limited,
  batch, payload)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: remove
DELETE FROM jobs WHERE id = ? AND status <> 2 RETURNING queue, status;

-- name: keys
SELECT owner, key, id, digest, created_at, final FROM idempotency ORDER BY owner, key LIMIT ?;

-- name: put key down
INSERT OR IGNORE INTO idempotency (owner, key, id, digest, created_at, final) VALUES (?, ?, ?, ?, ?, ?);

-- name: remove key
DELETE FROM idempotency WHERE owner = ? AND key = ?;

-- name: queue settings
SELECT name, paused & 1, max_pending FROM queues WHERE is_set;

-- name: set queue
UPDATE queues SET is_set = 1, paused = ?, max_pending = ? WHERE id = ?;

-- name: ticks
SELECT schedule, version, due, job FROM ticks;

-- name: put tick down
INSERT INTO ticks (schedule, version, due, job) VALUES (?, ?, ?, ?)
ON CONFLICT (schedule) DO UPDATE SET version = excluded.version, due = excluded.due, job = excluded.job WHERE excluded.due > due;

-- name: hours
SELECT hour, enqueued, completed, retried, failed, cancelled, deaths FROM hours
UNION ALL
SELECT hour, now_enqueued, now_completed, now_retried, now_failed, now_cancelled, 0 FROM queues WHERE hour > 0;

-- name: add hour
INSERT INTO hours (hour, enqueued, completed, retried, failed, cancelled, deaths) VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (hour) DO UPDATE SET enqueued = enqueued + excluded.enqueued, completed = completed + excluded.completed,
  retried = retried + excluded.retried, failed = failed + excluded.failed,
  cancelled = cancelled + excluded.cancelled, deaths = deaths + excluded.deaths;

-- name: batches
SELECT id, total, completed, failed, cancelled, told, created_at, coalesce(updated_at, created_at), on_complete, on_success
FROM batches;

-- name: put batch down
INSERT INTO batches (id, total, completed, failed, cancelled, told, created_at, updated_at, on_complete, on_success)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (id) DO UPDATE SET total = excluded.total, completed = excluded.completed, failed = excluded.failed,
  cancelled = excluded.cancelled, told = excluded.told, created_at = excluded.created_at,
  updated_at = excluded.updated_at, on_complete = excluded.on_complete, on_success = excluded.on_success;

-- name: name batch
INSERT INTO batches (id, created_at) VALUES (?, 0) ON CONFLICT (id) DO UPDATE SET id = excluded.id RETURNING number;

-- name: settings
SELECT name, value FROM settings;

-- name: audit
SELECT at, who, act, details FROM audit ORDER BY number;

-- name: put note down
INSERT INTO audit (at, who, act, details) VALUES (?, ?, ?, ?);

-- name: close books
UPDATE queues SET is_set = 0, paused = 2, max_pending = 0, ageing = 0, hour = 0, now_enqueued = 0, now_completed = 0,
  now_retried = 0, now_failed = 0, now_cancelled = 0;
