-- Limits. `level` and `filled_at` are the bucket; running jobs are counted in `jobs`, so that no crash can leak one.

-- name: find limit
SELECT id, count, per_s, max_running FROM limits WHERE key = ?;

-- name: add limit
INSERT INTO limits (key, count, per_s, max_running, level, filled_at) VALUES (?, ?, ?, ?, ?, ?) RETURNING id;

-- name: change limit
UPDATE limits SET level = CASE WHEN count = 0 THEN ? ELSE min(level, ?) END, count = ?, per_s = ?, max_running = ?
WHERE id = ?;

-- name: limit
SELECT count, per_s, max_running, level, filled_at, (SELECT count(*) FROM jobs WHERE limited = limits.id AND status = 2)
FROM limits WHERE id = ?;

-- name: limited by
SELECT limited FROM jobs WHERE rank = ?;

-- name: fill
UPDATE limits SET level = ?, filled_at = ? WHERE id = ?;

-- name: stand
UPDATE jobs SET status = ?, watched = ? WHERE rank = ?;

-- name: has waiting
SELECT 1 FROM jobs WHERE limited = ? AND status IN (-1, 1) LIMIT 1;

-- name: opens at
UPDATE limits SET opens_at = ? WHERE id = ? AND opens_at IS NOT ?;

-- name: next head
SELECT queue, priority, rank FROM jobs WHERE limited = ? AND status = -1 AND (queue, priority) > (?, ?)
ORDER BY queue, priority, rank LIMIT 1;

-- name: is in sight
SELECT 1 FROM jobs WHERE limited = ? AND status = 1 AND queue = ? AND priority = ? LIMIT 1;

-- name: opened
SELECT id FROM limits WHERE opens_at <= ? ORDER BY opens_at LIMIT ?;

-- name: next opening
SELECT min(opens_at) FROM limits WHERE opens_at IS NOT NULL;

-- name: forget limits
DELETE FROM limits WHERE id IN (
  SELECT id FROM limits l WHERE filled_at + per_s < ? - 3600
    AND NOT EXISTS (SELECT 1 FROM jobs WHERE limited = l.id AND status <= 2) LIMIT ?);

-- name: limits
SELECT l.key, l.id, (SELECT count(*) FROM jobs WHERE limited = l.id AND status = ?),
  (SELECT count(*) FROM jobs WHERE limited = l.id AND status IN (?, ?))
FROM limits l ORDER BY l.key;

-- name: limit key
SELECT key FROM limits WHERE id = ?;
