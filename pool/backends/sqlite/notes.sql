-- Settings of the whole store, and what people did.

-- name: age queues
UPDATE queues SET ageing = ? WHERE ageing <> ? RETURNING name;

-- name: set setting
INSERT INTO settings (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value;

-- name: setting
SELECT value FROM settings WHERE name = ?;

-- name: note
INSERT INTO audit (at, who, act, details) VALUES (?, ?, ?, ?) RETURNING number;

-- name: forget notes
DELETE FROM audit WHERE number <= ?;

-- name: audit
SELECT at, who, act, details FROM audit ORDER BY number DESC LIMIT ?;
