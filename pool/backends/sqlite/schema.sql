-- The SQLite store, version 1: frozen with the first release (see migrations.py). Times are wall seconds unless a name says boot (CLOCK_BOOTTIME).
--
-- jobs.rank is the place in the line: max(now in microseconds, last + 1); created_at is NULL where rank tells it.
-- jobs.status: -1 pending but held back by its limit, 0 scheduled, 1 pending, 2 running, 3 completed, 4 failed, 5 cancelled.
-- jobs.watched repeats the status for the indexes of what is rare, so that a completion need not look at them. It is NULL
-- only while a job is pending, running, completed or cancelled and has no run_at, expires_at or unique_key.
-- jobs.follow_ups is NULL only for a job without follow-ups, limit and batch: then it takes the shortest road.
-- jobs.limited and batch are the numbers of its limit and batch. queues.ageing is in microseconds per point. jobs.flags: 1 cancel asked, 2 runs alone.
-- jobs.lane is the last holder (lanes.id); the current holder is the lane whose `held` is this rank.
-- jobs.history is JSON: the newest attempts, each [number, worker, started, ended, outcome, cause, output]. Of a job that
-- completed at its first attempt without output it is only `=` and the worker: the times are in the row.
-- jobs.updated_at is not written where claimed_at or finished_at say the same.
-- lanes.request and settled are the last request and what it was told about its settlement; held and claim what it holds.
-- queues count their jobs by state, so that no reader has to, and in now_* the events of `hour`, until the first event of
-- another hour moves those to `hours`. Hour 0 sums what is older than two days.

CREATE TABLE queues (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  paused INTEGER NOT NULL DEFAULT 0,
  max_pending INTEGER NOT NULL DEFAULT 0,
  is_set INTEGER NOT NULL DEFAULT 0,
  ageing INTEGER NOT NULL DEFAULT 0,
  scheduled INTEGER NOT NULL DEFAULT 0,
  pending INTEGER NOT NULL DEFAULT 0,
  running INTEGER NOT NULL DEFAULT 0,
  completed INTEGER NOT NULL DEFAULT 0,
  failed INTEGER NOT NULL DEFAULT 0,
  cancelled INTEGER NOT NULL DEFAULT 0,
  hour INTEGER NOT NULL DEFAULT 0,
  now_enqueued INTEGER NOT NULL DEFAULT 0,
  now_completed INTEGER NOT NULL DEFAULT 0,
  now_retried INTEGER NOT NULL DEFAULT 0,
  now_failed INTEGER NOT NULL DEFAULT 0,
  now_cancelled INTEGER NOT NULL DEFAULT 0
);

-- Types and owners: each text once.
CREATE TABLE names (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);

CREATE TABLE jobs (
  rank INTEGER PRIMARY KEY,
  id BLOB NOT NULL,
  status INTEGER NOT NULL,
  watched INTEGER,
  queue INTEGER NOT NULL,
  priority INTEGER NOT NULL,
  type INTEGER NOT NULL,
  lane INTEGER,
  claims INTEGER NOT NULL DEFAULT 0,
  retries INTEGER NOT NULL DEFAULT 0,
  max_retries INTEGER NOT NULL,
  kills INTEGER NOT NULL DEFAULT 0,
  max_kills INTEGER NOT NULL,
  misfits INTEGER NOT NULL DEFAULT 0,
  losses INTEGER NOT NULL DEFAULT 0,
  flags INTEGER NOT NULL DEFAULT 0,
  timeout REAL NOT NULL DEFAULT 0,
  run_at REAL,
  expires_at REAL,
  created_at REAL,
  updated_at REAL,
  claimed_at REAL,
  started_at REAL,
  finished_at REAL,
  owner INTEGER,
  idempotency_key TEXT,
  unique_key TEXT,
  parent BLOB,
  reason TEXT,
  error TEXT,
  exception TEXT,
  progress REAL,
  progress_note TEXT,
  checkpoint TEXT,
  follow_ups TEXT,
  limited INTEGER,
  batch INTEGER,
  result TEXT,
  history TEXT,
  payload TEXT
);
CREATE UNIQUE INDEX jobs_id ON jobs (id);
CREATE INDEX jobs_pending ON jobs (queue, priority DESC) WHERE status = 1;
CREATE INDEX jobs_limited ON jobs (limited, status, queue, priority) WHERE limited IS NOT NULL;
CREATE INDEX jobs_batch ON jobs (batch) WHERE batch IS NOT NULL;
CREATE INDEX jobs_scheduled ON jobs (run_at, queue) WHERE watched = 0;
CREATE INDEX jobs_delayed ON jobs (queue, id) WHERE watched = 0;
CREATE INDEX jobs_was_scheduled ON jobs (run_at, queue) WHERE watched = 1 AND run_at IS NOT NULL;
CREATE INDEX jobs_expiring ON jobs (expires_at) WHERE watched <= 1 AND expires_at IS NOT NULL;
CREATE INDEX jobs_finished ON jobs (status, queue, finished_at) WHERE status >= 3;
-- Completions, which are many, pay for jobs_finished only; the others are for what people look for.
CREATE INDEX jobs_owner ON jobs (owner, id) WHERE owner IS NOT NULL;
CREATE INDEX jobs_dead ON jobs (id) WHERE watched = 4;
CREATE INDEX jobs_dead_in_queue ON jobs (queue, id) WHERE watched = 4;
CREATE INDEX jobs_dead_of_owner ON jobs (owner, id) WHERE watched = 4 AND owner IS NOT NULL;
CREATE INDEX jobs_failed ON jobs (finished_at) WHERE watched = 4;
CREATE UNIQUE INDEX jobs_unique_key ON jobs (unique_key) WHERE unique_key IS NOT NULL AND watched <= 2;

-- An idempotency key answers for its own retention; `final` is the state of a job that is no longer stored.
CREATE TABLE idempotency (
  owner TEXT NOT NULL,
  key TEXT NOT NULL,
  id BLOB NOT NULL,
  digest BLOB NOT NULL,
  created_at REAL NOT NULL,
  final INTEGER,
  PRIMARY KEY (owner, key)
) WITHOUT ROWID;
CREATE INDEX idempotency_created ON idempotency (created_at);

CREATE TABLE pools (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  name TEXT NOT NULL,
  host TEXT NOT NULL,
  incarnation TEXT NOT NULL,
  beats INTEGER NOT NULL DEFAULT 0,
  beat_boot REAL NOT NULL,
  boot TEXT NOT NULL,
  lease REAL NOT NULL,
  pid INTEGER,
  ticks INTEGER,
  namespace INTEGER,
  facts TEXT NOT NULL DEFAULT '{}',
  UNIQUE (name, host, incarnation)
);

CREATE TABLE lanes (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  pool INTEGER NOT NULL,
  slot INTEGER NOT NULL,
  generation INTEGER NOT NULL,
  lane INTEGER NOT NULL,
  request INTEGER NOT NULL DEFAULT 0,
  settled INTEGER,
  held INTEGER,
  claim INTEGER NOT NULL DEFAULT 0,
  claimed_boot REAL,
  barred INTEGER NOT NULL DEFAULT 0,
  lease REAL,
  expires_boot REAL,
  boot TEXT NOT NULL,
  pid INTEGER,
  ticks INTEGER,
  namespace INTEGER,
  UNIQUE (pool, slot, generation, lane)
);

-- The highest dead generation of each slot.
CREATE TABLE bars (
  pool INTEGER NOT NULL,
  slot INTEGER NOT NULL,
  generation INTEGER NOT NULL,
  PRIMARY KEY (pool, slot)
) WITHOUT ROWID;

CREATE TABLE ticks (schedule TEXT PRIMARY KEY, version TEXT NOT NULL, due REAL NOT NULL, job BLOB) WITHOUT ROWID;

-- `level` starts are in the bucket as of `filled_at`; `opens_at` is when a used-up rate lets the next waiting job start.
CREATE TABLE limits (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  key TEXT NOT NULL UNIQUE,
  count INTEGER NOT NULL,
  per_s REAL NOT NULL,
  max_running INTEGER NOT NULL,
  level REAL NOT NULL,
  filled_at REAL NOT NULL,
  opens_at REAL
);
CREATE INDEX limits_opening ON limits (opens_at) WHERE opens_at IS NOT NULL;

CREATE TABLE batches (
  number INTEGER PRIMARY KEY AUTOINCREMENT,
  id BLOB NOT NULL UNIQUE,
  total INTEGER NOT NULL DEFAULT 0,
  completed INTEGER NOT NULL DEFAULT 0,
  failed INTEGER NOT NULL DEFAULT 0,
  cancelled INTEGER NOT NULL DEFAULT 0,
  told INTEGER NOT NULL DEFAULT 0,
  on_complete TEXT,
  on_success TEXT,
  created_at REAL NOT NULL,
  updated_at REAL
);

CREATE TABLE settings (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;

CREATE TABLE audit (
  number INTEGER PRIMARY KEY AUTOINCREMENT,
  at REAL NOT NULL,
  who TEXT NOT NULL,
  act TEXT NOT NULL,
  details TEXT NOT NULL
);

CREATE TABLE hours (
  hour INTEGER PRIMARY KEY,
  enqueued INTEGER NOT NULL DEFAULT 0,
  completed INTEGER NOT NULL DEFAULT 0,
  retried INTEGER NOT NULL DEFAULT 0,
  failed INTEGER NOT NULL DEFAULT 0,
  cancelled INTEGER NOT NULL DEFAULT 0,
  deaths INTEGER NOT NULL DEFAULT 0
);

-- While the store is moved elsewhere, and after: one row of JSON (see backends/moving.py).
CREATE TABLE moving (mark TEXT NOT NULL);
