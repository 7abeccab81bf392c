-- Batches. `told` has a bit for each callback that was enqueued: 1 on_complete, 2 on_success.

-- name: find batch
SELECT number FROM batches WHERE id = ?;

-- name: add batch
INSERT INTO batches (id, on_complete, on_success, created_at) VALUES (?, ?, ?, ?) RETURNING number;

-- name: set total
UPDATE batches SET total = ? WHERE number = ?;

-- name: count
UPDATE batches SET completed = completed + ?, failed = failed + ?, cancelled = cancelled + ?, updated_at = ? WHERE number = ?;

-- name: batch
SELECT total, completed, failed, cancelled, told, on_complete, on_success FROM batches WHERE number = ?;

-- name: told
UPDATE batches SET told = ? WHERE number = ?;

-- name: state
SELECT total, completed, failed, cancelled, created_at FROM batches WHERE number = ?;

-- name: batch id
SELECT id FROM batches WHERE number = ?;

-- name: forget batches
DELETE FROM batches WHERE number IN (
  SELECT number FROM batches b WHERE coalesce(updated_at, created_at) < ? AND completed + failed + cancelled >= total
    AND NOT EXISTS (SELECT 1 FROM jobs WHERE batch = b.number) LIMIT ?);
