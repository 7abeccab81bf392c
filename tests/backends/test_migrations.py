"""A store of an older version is brought up to date at the first open, whole or not at all; a newer one is refused."""

import os
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from pool.backends.redis import backend as redis_backend
from pool.backends.redis import migrations as redis_migrations
from pool.backends.redis.backend import RedisBackend
from pool.backends.redis.keys import Keys
from pool.backends.redis.scripts import Step
from pool.backends.sqlite import migrations, store
from pool.backends.sqlite.backend import SqliteBackend
from pool.errors import StoreTooNew
from tests.helpers.builders import ANYTHING, Hand, drain, put
from tests.helpers.servers import Server, running
from tests.helpers.stores import in_child, together

# What a second version might be: a column with a value for each old row, an index, a table.
SECOND = """
-- a comment; with a semicolon
ALTER TABLE jobs ADD COLUMN colour TEXT NOT NULL DEFAULT 'grey';
UPDATE jobs SET colour = 'blue' WHERE priority > 10;
CREATE INDEX jobs_colour ON jobs (colour);
CREATE TABLE colours (name TEXT PRIMARY KEY) WITHOUT ROWID;
INSERT INTO colours VALUES ('grey'), ('blue');
"""
STEPS = (*migrations.STEPS, SECOND)


def version_of(path: Path) -> int:
    with closing(sqlite3.connect(path)) as db:
        return migrations.version_of(db)


def tables_of(path: Path) -> list[tuple[str, str]]:
    with closing(sqlite3.connect(path)) as db:
        return db.execute("SELECT name, sql FROM sqlite_master ORDER BY name").fetchall()


def migrate(path: Path, steps: tuple[str, ...] = STEPS) -> bool:
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        return migrations.bring_up_to_date(db, str(path), steps)


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A database of this version with some jobs."""
    path = tmp_path / "jobpool.db"
    with closing(SqliteBackend(str(path))) as backend:
        for priority in (0, 10, 20, 30):
            put(backend, priority=priority)
    return path


@pytest.fixture
def newer_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """This process opens databases as a jobpool with one step more does."""
    for name in ("bring_up_to_date", "is_up_to_date", "is_newer"):
        monkeypatch.setattr(store, name, partial(getattr(migrations, name), steps=STEPS))


# ---------------------------------------------------------------- SQLite


def test_an_older_database_gets_what_is_new_and_keeps_its_jobs(old: Path, newer_program: None) -> None:
    with closing(SqliteBackend(str(old))) as backend:
        assert len(drain(Hand(backend))) == 4
    assert version_of(old) == 2
    with closing(sqlite3.connect(old)) as db:
        assert db.execute("SELECT count(*) FROM jobs WHERE colour = 'blue'").fetchone() == (2,)


def test_a_fresh_database_is_the_same_as_a_migrated_one(old: Path, tmp_path: Path) -> None:
    migrate(old)
    fresh = tmp_path / "fresh.db"
    migrate(fresh)
    assert tables_of(fresh) == tables_of(old)


def test_a_second_time_nothing_is_done(old: Path) -> None:
    assert (migrate(old), migrate(old)) == (True, False)


@pytest.mark.parametrize("place", range(1, 12))
def test_a_program_killed_in_the_midst_of_a_migration_leaves_the_old_version_whole(old: Path, place: int) -> None:
    before = tables_of(old)
    pid = os.fork()
    if pid == 0:
        try:
            _migrate_and_die(old, place)
        finally:
            os._exit(0)
    _, status = os.waitpid(pid, 0)
    was_killed = os.WIFSIGNALED(status)
    assert was_killed or place > 9, "the test kills nobody any more"
    assert (version_of(old), tables_of(old) == before) == ((1, True) if was_killed else (2, False))
    with closing(SqliteBackend(str(old))) as backend:
        if was_killed:
            assert len(drain(Hand(backend))) == 4
    assert migrate(old) is was_killed


def _migrate_and_die(path: Path, place: int) -> None:
    """SIGKILL before the n-th statement of the transaction."""
    db = sqlite3.connect(path, isolation_level=None)
    left = [place]

    def count(text: str) -> None:
        left[0] -= db.in_transaction
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    db.set_trace_callback(count)
    migrations.bring_up_to_date(db, str(path), STEPS)


def test_a_step_that_fails_leaves_the_old_version_whole(old: Path) -> None:
    before = tables_of(old)
    with pytest.raises(sqlite3.OperationalError, match="no such table"):
        migrate(old, (*STEPS, "DROP TABLE nowhere;"))
    assert (version_of(old), tables_of(old)) == (1, before)


def test_of_many_programs_that_open_at_once_one_migrates(old: Path, newer_program: None) -> None:
    def take_one(number: int) -> str:
        with closing(SqliteBackend(str(old))) as backend:
            return Hand(backend).take().job_id

    assert len(set(together(4, take_one))) == 4
    assert version_of(old) == 2
    with closing(sqlite3.connect(old)) as db:
        assert db.execute("SELECT count(*) FROM colours").fetchone() == (2,)


def test_a_program_that_runs_on_while_a_newer_one_migrates_refuses_from_then_on(old: Path) -> None:
    with closing(SqliteBackend(str(old))) as older:
        assert Hand(older).take()
        migrate(old)
        older._store._file_seen_at = 0.0  # a second has passed
        for _ in range(2):
            with pytest.raises(StoreTooNew, match="version 2, this jobpool knows up to 1: upgrade"):
                put(older)
        with pytest.raises(StoreTooNew):
            older.queues()


# ---------------------------------------------------------------- Redis

NOTE_FORM = b"new:"
SECOND_ON_REDIS = Step(
    "second",
    """
-- Each idempotency digest gets a mark, some at a time.
--! include keys
local function portion(cursor, most)
  local from = tonumber(cursor) or 0
  local names = call('ZRANGE', IDEM_AT, from, from + most - 1)
  for _, name in ipairs(names) do
    local value = call('HGET', IDEM, name)
    if string.sub(value, 1, 4) ~= 'new:' then call('HSET', IDEM, name, 'new:' .. value) end
  end
  call('HINCRBY', KEYS[15], 'portions', 1)
  return #names == most and from + most or nil
end
--! include migrating
""",
)
JOBS = 100


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with running() as started:
        yield started


@pytest.fixture
def namespace(server: Server, request: pytest.FixtureRequest) -> str:
    name = request.node.name
    with closing(RedisBackend(server.url, name)) as backend:
        for number in range(JOBS):
            put(backend, idempotency_key=f"k{number}")
    return name


@pytest.fixture
def newer_on_redis(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redis_migrations, "PORTION", 20)
    newer = partial(redis_migrations.bring_up_to_date, steps=(SECOND_ON_REDIS,))
    monkeypatch.setattr(redis_backend, "bring_up_to_date", newer)


def schema(server: Server, namespace: str) -> dict[str, str]:
    return server.call("HGETALL", f"{{jobpool:{namespace}}}:schema")


def forms(server: Server, namespace: str) -> set[bytes]:
    with server.client() as client:
        return {value[:4] for value in client.hvals(f"{{jobpool:{namespace}}}:idem")}


def test_a_namespace_of_this_version_bears_no_mark(server: Server, namespace: str) -> None:
    assert schema(server, namespace) == {}


def test_an_older_namespace_is_migrated_in_portions_at_the_first_call(
    server: Server, namespace: str, newer_on_redis: None
) -> None:
    with closing(RedisBackend(server.url, namespace)) as backend:
        backend.queues()
    done = schema(server, namespace)
    assert (done["version"], "cursor" in done) == ("2", False)
    assert int(done["portions"]) > 3
    assert forms(server, namespace) == {NOTE_FORM}


def test_who_comes_after_a_program_that_died_goes_on_where_it_stopped(
    server: Server, namespace: str, newer_on_redis: None
) -> None:
    def die_after_two_portions() -> None:
        backend = RedisBackend(server.url, namespace)
        connection = backend._session._open()
        asked = connection.ask
        portions = iter(
            range(4)
        )  # the look at the version, and portions (the first may be asked for twice: by digest, by text)

        def ask(packed: bytes) -> object:
            if next(portions, None) is None:
                os._exit(0)
            return asked(packed)

        connection.ask = ask  # type: ignore[method-assign]
        redis_backend.bring_up_to_date(Keys(namespace), backend.url, connection)

    with pytest.raises(AssertionError, match="gave no answer"):
        in_child(die_after_two_portions).result()
    unfinished = schema(server, namespace)
    assert (unfinished["version"], unfinished["portions"]) in (("2", "2"), ("2", "3"))
    assert "cursor" in unfinished
    assert len(forms(server, namespace)) > 1
    with closing(RedisBackend(server.url, namespace)) as backend:
        assert len(drain(Hand(backend))) == JOBS
    assert forms(server, namespace) == {NOTE_FORM}


def test_many_programs_that_come_at_once_help_each_other(server: Server, namespace: str, newer_on_redis: None) -> None:
    def take_one(number: int) -> str:
        with closing(RedisBackend(server.url, namespace)) as backend:
            return Hand(backend).take().job_id

    assert len(set(together(4, take_one))) == 4
    assert "cursor" not in schema(server, namespace)
    assert forms(server, namespace) == {NOTE_FORM}


@pytest.mark.parametrize("fields", [{"version": 2}, {"version": 2, "cursor": "17"}, {"version": 99}])
def test_a_newer_namespace_is_refused_though_it_is_not_yet_finished(
    server: Server, namespace: str, fields: dict[str, object]
) -> None:
    for name, value in fields.items():
        server.call("HSET", f"{{jobpool:{namespace}}}:schema", name, value)
    with closing(RedisBackend(server.url, namespace)) as backend:
        for call in (backend.queues, lambda: put(backend), lambda: Hand(backend).claim()):
            with pytest.raises(StoreTooNew, match=f"version {fields['version']}, this jobpool knows up to 1: upgrade"):
                call()
        backend.wait(ANYTHING, 0.01)  # a worker sleeps, and does not end


def test_on_redis_too_a_program_that_runs_on_refuses_from_then_on(server: Server, namespace: str) -> None:
    with closing(RedisBackend(server.url, namespace)) as older:
        assert Hand(older).take()
        server.call("HSET", f"{{jobpool:{namespace}}}:schema", "version", 2)
        older._session._welcomed_at = 0.0  # half a minute has passed
        for _ in range(2):
            with pytest.raises(StoreTooNew):
                put(older)
