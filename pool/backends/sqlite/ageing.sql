-- The next job where waiting counts: of each queue and priority the first (found by seeking from class to class), and of
-- those the one whose place is best when each point of priority is worth so many microseconds (`grain`). The columns of work.sql.
-- Bound: the highest priority, the queues as JSON, grain, the lowest priority, grain.

-- name: next of any
WITH RECURSIVE classes (queue, priority) AS (
  SELECT q.id, (SELECT max(priority) FROM jobs WHERE status = 1 AND queue = q.id AND priority <= ?) FROM queues q
  WHERE q.pending > 0 AND NOT q.paused AND q.id NOT IN (SELECT value FROM json_each(?))
  UNION ALL
  SELECT c.queue, (SELECT max(priority) FROM jobs WHERE status = 1 AND queue = c.queue AND priority < c.priority)
  FROM classes c WHERE c.priority IS NOT NULL)
SELECT j.rank, j.id, j.type, j.queue, j.payload, j.priority, j.claims, j.retries, j.max_retries, j.kills, j.misfits,
  j.timeout, j.created_at, j.checkpoint, j.owner, j.flags, j.expires_at, j.follow_ups,
  (SELECT pending FROM queues WHERE id = c.queue), (SELECT min(run_at) FROM jobs WHERE watched = 0), ?, j.limited, j.history IS NULL, j.watched
FROM classes c CROSS JOIN jobs j ON j.rank = (
  SELECT rank FROM jobs WHERE status = 1 AND queue = c.queue AND priority = c.priority ORDER BY rank LIMIT 1)
WHERE c.priority >= ?
ORDER BY j.rank - j.priority * ?, j.rank LIMIT 1;

-- name: next of list
WITH RECURSIVE classes (place, queue, priority) AS (
  SELECT w.key, q.id, (SELECT max(priority) FROM jobs WHERE status = 1 AND queue = q.id AND priority <= ?)
  FROM json_each(?) w CROSS JOIN queues q ON q.id = w.value WHERE q.pending > 0 AND NOT q.paused
  UNION ALL
  SELECT c.place, c.queue, (SELECT max(priority) FROM jobs WHERE status = 1 AND queue = c.queue AND priority < c.priority)
  FROM classes c WHERE c.priority IS NOT NULL)
SELECT j.rank, j.id, j.type, j.queue, j.payload, j.priority, j.claims, j.retries, j.max_retries, j.kills, j.misfits,
  j.timeout, j.created_at, j.checkpoint, j.owner, j.flags, j.expires_at, j.follow_ups,
  (SELECT pending FROM queues WHERE id = c.queue), (SELECT min(run_at) FROM jobs WHERE watched = 0), ?, j.limited, j.history IS NULL, j.watched
FROM classes c CROSS JOIN jobs j ON j.rank = (
  SELECT rank FROM jobs WHERE status = 1 AND queue = c.queue AND priority = c.priority ORDER BY rank LIMIT 1)
WHERE c.priority >= ?
ORDER BY c.place, j.rank - j.priority * ?, j.rank LIMIT 1;
