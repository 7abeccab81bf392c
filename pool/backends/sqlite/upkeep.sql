-- What the keeper does.

-- name: beat
UPDATE pools SET beats = beats + 1, beat_boot = ?, boot = ?, lease = ?, pid = ?, ticks = ?, namespace = ?, facts = ? WHERE id = ?;

-- name: lanes of pool
SELECT l.id, l.slot, l.generation, l.lane, l.held, l.claim, j.id, j.flags, l.claimed_boot
FROM lanes l LEFT JOIN jobs j ON j.rank = l.held
WHERE l.pool = ? AND l.held IS NOT NULL;

-- name: lanes of worker
SELECT id, lane, held, claim FROM lanes WHERE pool = ? AND slot = ? AND generation = ? AND held IS NOT NULL ORDER BY lane;

-- name: adoptable
SELECT rank, queue, limited, claims, lane FROM jobs WHERE id = ? AND abs(status) = 1;

-- name: adopt job
UPDATE jobs SET status = 2, watched = 2, lane = ?, claims = ?, claimed_at = ? WHERE rank = ?;

-- name: adopt lane
UPDATE lanes SET held = ?, claim = ?, claimed_boot = ? WHERE id = ? AND held IS NULL AND NOT barred;

-- name: lane lost
UPDATE lanes SET held = NULL WHERE id = ?;

-- name: bar
INSERT INTO bars (pool, slot, generation) VALUES (?, ?, ?)
ON CONFLICT (pool, slot) DO UPDATE SET generation = excluded.generation WHERE excluded.generation > generation;

-- name: bar lanes
UPDATE lanes SET barred = 1 WHERE pool = ? AND slot = ? AND generation <= ? AND NOT barred;

-- name: forget older lanes
DELETE FROM lanes WHERE pool = ? AND slot = ? AND generation < ? AND barred AND held IS NULL;

-- name: holders
SELECT l.id, l.pool, l.slot, l.generation, l.lane, l.held, l.claim, l.lease, l.expires_boot, l.boot, l.pid, l.ticks, l.namespace,
  p.name, p.host, p.incarnation, p.beats, p.beat_boot, p.boot, p.lease, p.pid, p.ticks, p.namespace
FROM lanes l JOIN pools p ON p.id = l.pool WHERE l.held IS NOT NULL;

-- name: all pools
SELECT p.id, p.name, p.host, p.incarnation, p.beats, p.beat_boot, p.boot, p.lease, p.pid, p.ticks, p.namespace, p.facts,
  EXISTS (SELECT 1 FROM lanes l WHERE l.pool = p.id AND l.held IS NOT NULL)
FROM pools p;

-- name: forget lanes
DELETE FROM lanes WHERE pool = ?;

-- name: forget bars
DELETE FROM bars WHERE pool = ?;

-- name: forget pool
DELETE FROM pools WHERE id = ?;

-- name: forget leased lanes
DELETE FROM lanes WHERE held IS NULL AND lease IS NOT NULL;

-- name: expired
SELECT rank, queue, status FROM jobs WHERE watched <= 1 AND expires_at IS NOT NULL AND expires_at <= ?
ORDER BY expires_at LIMIT ?;

-- name: what is next
SELECT (SELECT min(run_at) FROM jobs WHERE watched = 0),
  (SELECT min(opens_at) FROM limits WHERE opens_at IS NOT NULL),
  (SELECT min(expires_at) FROM jobs WHERE watched <= 1 AND expires_at IS NOT NULL),
  EXISTS (SELECT 1 FROM queues WHERE pending > 0 AND NOT paused);

-- name: tick
INSERT INTO ticks (schedule, version, due) VALUES (?, ?, ?)
ON CONFLICT (schedule) DO UPDATE SET version = excluded.version, due = excluded.due WHERE excluded.due > due
RETURNING 1;

-- name: last tick
SELECT due FROM ticks WHERE schedule = ?;

-- name: job of tick
UPDATE ticks SET job = ? WHERE schedule = ?;

-- name: last job
SELECT job FROM ticks WHERE schedule = ?;

-- name: old finished
SELECT rank, queue, status, owner, idempotency_key FROM jobs
WHERE status = ? AND status >= 3 AND queue IN (SELECT id FROM queues) AND finished_at < ? LIMIT ?;

-- name: forget keys
DELETE FROM idempotency WHERE (owner, key) IN (SELECT owner, key FROM idempotency WHERE created_at < ? ORDER BY created_at LIMIT ?);

-- name: fold hours
INSERT INTO hours (hour, enqueued, completed, retried, failed, cancelled, deaths)
SELECT 0, total(enqueued), total(completed), total(retried), total(failed), total(cancelled), total(deaths)
FROM hours WHERE hour > 0 AND hour < ? HAVING count(*) > 0
ON CONFLICT (hour) DO UPDATE SET enqueued = enqueued + excluded.enqueued, completed = completed + excluded.completed,
  retried = retried + excluded.retried, failed = failed + excluded.failed,
  cancelled = cancelled + excluded.cancelled, deaths = deaths + excluded.deaths;

-- name: drop folded hours
DELETE FROM hours WHERE hour > 0 AND hour < ?;
