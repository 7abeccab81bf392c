-- What anyone may look at. {columns} are showing.JOB_COLUMNS, {where} conditions with bound parameters, {status} a column.

-- name: one job
SELECT {columns}, j.history FROM jobs j WHERE j.id = ?;

-- name: holder
SELECT p.name, p.host, p.incarnation, l.slot, l.generation, l.lane
FROM lanes l JOIN pools p ON p.id = l.pool WHERE l.id = ?;

-- name: some jobs
SELECT {columns} FROM jobs j WHERE {where} ORDER BY {order} DESC LIMIT ?;

-- name: last failed
SELECT {columns} FROM jobs j WHERE j.watched = 4 ORDER BY j.finished_at DESC, j.rank DESC LIMIT ?;

-- name: in state
SELECT total({status}) FROM queues WHERE ? IS NULL OR id = ?;

-- name: place
SELECT j.rank, j.queue, j.priority, j.status, q.ageing FROM jobs j JOIN queues q ON q.id = j.queue WHERE j.id = ?;

-- name: ahead
SELECT count(*) FROM jobs WHERE queue = ? AND status = 1 AND (priority > ? OR (priority = ? AND rank < ?));

-- name: ahead by age
SELECT count(*) FROM jobs WHERE queue = ? AND status = 1 AND (rank - priority * ?, rank) < (?, ?);

-- name: queues
SELECT id, name, pending, scheduled, running, completed, failed, paused, max_pending
FROM queues WHERE is_set OR pending + scheduled + running + completed + failed + cancelled > 0 ORDER BY name;

-- name: heads
WITH RECURSIVE classes (queue, priority) AS (
  SELECT q.id, (SELECT max(priority) FROM jobs WHERE status = 1 AND queue = q.id) FROM queues q WHERE q.pending > 0
  UNION ALL
  SELECT c.queue, (SELECT max(priority) FROM jobs WHERE status = 1 AND queue = c.queue AND priority < c.priority)
  FROM classes c WHERE c.priority IS NOT NULL)
SELECT c.queue, min(max(coalesce(j.created_at, j.rank / 1e6), coalesce(j.run_at, 0)))
FROM classes c JOIN jobs j ON j.rank = (
  SELECT rank FROM jobs WHERE status = 1 AND queue = c.queue AND priority = c.priority ORDER BY rank LIMIT 1)
GROUP BY c.queue;

-- name: oldest promoted
SELECT queue, min(run_at) FROM jobs INDEXED BY jobs_was_scheduled WHERE watched = 1 AND run_at IS NOT NULL GROUP BY queue;

-- name: overdue
SELECT queue, count(*) FROM jobs INDEXED BY jobs_scheduled WHERE watched = 0 AND run_at < ? GROUP BY queue
UNION ALL
SELECT queue, count(*) FROM jobs INDEXED BY jobs_was_scheduled WHERE watched = 1 AND run_at IS NOT NULL AND run_at < ? GROUP BY queue;

-- name: totals
SELECT total(enqueued), total(completed), total(retried), total(failed), total(cancelled), total(deaths) FROM (
  SELECT enqueued, completed, retried, failed, cancelled, deaths FROM hours
  UNION ALL SELECT now_enqueued, now_completed, now_retried, now_failed, now_cancelled, 0 FROM queues);

-- name: delayed
SELECT total(scheduled) FROM queues;

-- name: hours
SELECT hour, CAST(total(enqueued) AS INTEGER), CAST(total(completed) AS INTEGER), CAST(total(retried) AS INTEGER),
  CAST(total(failed) AS INTEGER)
FROM (
  SELECT hour, enqueued, completed, retried, failed FROM hours WHERE hour > ?
  UNION ALL SELECT hour, now_enqueued, now_completed, now_retried, now_failed FROM queues WHERE hour > ?)
GROUP BY hour;

-- name: pools
SELECT id, name, host, incarnation, beats, beat_boot, boot, lease, pid, ticks, namespace, facts FROM pools
WHERE beats > 0 OR EXISTS (SELECT 1 FROM lanes l WHERE l.pool = pools.id AND l.held IS NOT NULL) ORDER BY name, id;
