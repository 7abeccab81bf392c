-- Names as numbers, and the counts kept with queues and hours (see schema.sql).

-- name: find queue
SELECT id FROM queues WHERE name = ?;

-- name: add queue
INSERT INTO queues (name, ageing, paused)
VALUES (?, coalesce((SELECT CAST(round(value * 1e5) AS INTEGER) FROM settings WHERE name = 'ageing'), 0),
  2 * EXISTS (SELECT 1 FROM moving))
RETURNING id;

-- name: queue name
SELECT name FROM queues WHERE id = ?;

-- name: find name
SELECT id FROM names WHERE name = ?;

-- name: add name
INSERT INTO names (name) VALUES (?) RETURNING id;

-- name: name
SELECT name FROM names WHERE id = ?;

-- name: book moves
UPDATE queues SET scheduled = scheduled + ?, pending = pending + ?, running = running + ?,
  completed = completed + ?, failed = failed + ?, cancelled = cancelled + ?, now_enqueued = now_enqueued + ?,
  now_completed = now_completed + ?, now_retried = now_retried + ?, now_failed = now_failed + ?,
  now_cancelled = now_cancelled + ?
WHERE id = ? AND hour = ?;

-- name: keep hour
INSERT INTO hours (hour, enqueued, completed, retried, failed, cancelled)
SELECT CAST(hour AS INTEGER), now_enqueued, now_completed, now_retried, now_failed, now_cancelled FROM queues WHERE id = ?
ON CONFLICT (hour) DO UPDATE SET enqueued = enqueued + excluded.enqueued, completed = completed + excluded.completed,
  retried = retried + excluded.retried, failed = failed + excluded.failed, cancelled = cancelled + excluded.cancelled;

-- name: begin hour
UPDATE queues SET hour = ?, now_enqueued = 0, now_completed = 0, now_retried = 0, now_failed = 0, now_cancelled = 0 WHERE id = ?;

-- name: book death
INSERT INTO hours (hour, deaths) VALUES (?, 1) ON CONFLICT (hour) DO UPDATE SET deaths = deaths + 1;
