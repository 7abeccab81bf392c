-- Names as numbers, and the counts kept with queues and hours.

-- name: find queue
SELECT id FROM queues WHERE name = ?;

-- name: add queue
INSERT INTO queues (name) VALUES (?) RETURNING id;

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
  completed = completed + ?, failed = failed + ?, cancelled = cancelled + ?
WHERE id = ?;

-- name: book events
INSERT INTO hours (hour, enqueued, completed, retried, failed, cancelled, deaths) VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (hour) DO UPDATE SET enqueued = enqueued + excluded.enqueued, completed = completed + excluded.completed,
  retried = retried + excluded.retried, failed = failed + excluded.failed,
  cancelled = cancelled + excluded.cancelled, deaths = deaths + excluded.deaths;
