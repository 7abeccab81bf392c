-- Whether a sleeping worker has reason to get up. Reads only.

-- name: eligible of any
SELECT EXISTS (SELECT 1 FROM queues q WHERE q.pending > 0 AND NOT q.paused
  AND EXISTS (SELECT 1 FROM jobs WHERE status = 1 AND queue = q.id AND priority BETWEEN ? AND ?)
  AND q.id NOT IN (SELECT value FROM json_each(?))),
  (SELECT min(run_at) FROM jobs WHERE watched = 0);

-- name: eligible of list
SELECT EXISTS (SELECT 1 FROM queues q WHERE q.pending > 0 AND NOT q.paused
  AND EXISTS (SELECT 1 FROM jobs WHERE status = 1 AND queue = q.id AND priority BETWEEN ? AND ?)
  AND q.id IN (SELECT value FROM json_each(?))),
  (SELECT min(run_at) FROM jobs WHERE watched = 0);
