"""Records that somebody or something has broken: set aside, never raised at a worker, and still shown to people."""

import json
import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from pool.backends.contract import JobFilter
from pool.backends.sqlite import showing
from pool.backends.sqlite.backend import SqliteBackend
from pool.backends.sqlite.statements import statements
from pool.errors import LaneBarred, QueueFull
from pool.jobs.lifecycle import MOVES, Reason, Status
from tests.helpers.builders import ANYTHING, Hand, beat, departure, drain, new_job, put, some_pool
from tests.helpers.stores import open_sqlite

BREAKS = {
    "payload is a blob": "UPDATE jobs SET payload = x'00ff' WHERE rank = ?",
    "payload is missing": "UPDATE jobs SET payload = NULL WHERE rank = ?",
    "unknown type": "UPDATE jobs SET type = 999999 WHERE rank = ?",
    "type is text": "UPDATE jobs SET type = 'mail' WHERE rank = ?",
    "id is short": "UPDATE jobs SET id = x'0102' WHERE rank = ?",
    "id is text": "UPDATE jobs SET id = 'an id' WHERE rank = ?",
    "unknown owner": "UPDATE jobs SET owner = 999999 WHERE rank = ?",
    "retries are text": "UPDATE jobs SET retries = 'many' WHERE rank = ?",
    "priority is text": "UPDATE jobs SET timeout = 'long' WHERE rank = ?",
    "follow-ups are broken": "UPDATE jobs SET follow_ups = '[{' WHERE rank = ?",
    "follow-ups are of another form": """UPDATE jobs SET follow_ups = '[{"a": 1}, null]' WHERE rank = ?""",
    "checkpoint is no text": "UPDATE jobs SET checkpoint = x'ff' WHERE rank = ?",
}


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "jobpool.db")


def _break(path: str, how: str) -> None:
    with sqlite3.connect(path) as other:
        other.execute(how, (other.execute("SELECT min(rank) FROM jobs").fetchone()[0],))
    other.close()


def test_a_job_is_the_same_record_by_whichever_road_it_came(path: str) -> None:
    """Alone and plain, beside a delayed one, beside one with a key: three statements, one kind of row."""
    store = open_sqlite(path)
    for beside in ([], [new_job(type="other", delay=60.0)], [new_job(type="other", unique_key="k")]):
        store.enqueue([new_job(payload='{"n":1}', priority=7, timeout=2.5), *beside])
    store.close()
    with sqlite3.connect(path) as db:
        rows = db.execute("SELECT * FROM jobs WHERE priority = 7").fetchall()
        names = [column[0] for column in db.execute("SELECT * FROM jobs").description]
    db.close()
    plain = [
        {name: value for name, value in zip(names, row, strict=True) if name not in ("rank", "id")} for row in rows
    ]
    assert len(plain) == 3
    assert plain[0] == plain[1] == plain[2]


@pytest.mark.parametrize("how", BREAKS, ids=lambda how: how.replace(" ", "-"))
def test_a_broken_record_is_set_aside_and_the_next_job_is_handed_out(path: str, how: str) -> None:
    store = open_sqlite(path)
    put(store)
    sound = put(store)
    store.close()
    _break(path, BREAKS[how])

    assert drain(Hand(store)) == [sound]

    [broken] = store.jobs(JobFilter(status=MOVES["set aside"][1])).jobs
    assert broken.reason is Reason.INVALID_RECORD
    assert broken.error is not None and broken.error.startswith("the stored record cannot be read: ")
    assert (store.statistics().failed, store.queues()[0].failed, store.queues()[0].pending) == (1, 1, 0)


def test_a_broken_delayed_record_is_set_aside_when_it_is_due(path: str) -> None:
    store = open_sqlite(path)
    put(store, delay=0.01)
    store.close()
    _break(path, BREAKS["payload is missing"])
    assert drain(Hand(store)) == []
    while store.queues()[0].failed == 0:
        assert drain(Hand(store)) == []


def test_a_broken_history_begins_anew(path: str) -> None:
    store = open_sqlite(path)
    job_id = put(store)
    hand = Hand(store)
    hand.take()
    hand.retry()
    store.close()
    _break(path, "UPDATE jobs SET history = '[[1,' WHERE rank = ?")
    assert store.job(job_id).attempts == ()
    assert drain(hand) == [job_id]
    assert len(store.job(job_id).attempts) == 1


def test_a_hundred_broken_records_do_not_hide_the_sound_one(path: str) -> None:
    store = open_sqlite(path)
    store.enqueue([new_job() for _ in range(250)])
    sound = put(store)
    store.close()
    with sqlite3.connect(path) as other:
        other.execute("UPDATE jobs SET payload = NULL WHERE rank < (SELECT max(rank) FROM jobs)")
    other.close()
    hand = Hand(store)
    done = [job_id for _ in range(5) for job_id in drain(hand)]
    assert done == [sound]
    assert store.queues()[0].failed == 250


def test_facts_of_a_pool_that_cannot_be_read_are_empty(path: str) -> None:
    store = open_sqlite(path)
    store.beat(beat(some_pool(), facts="{"))
    assert store.pools()[0].facts == {}
    store.beat(beat(some_pool(), facts=json.dumps({"version": "1"})))
    assert store.pools()[1].facts == {"version": "1"}


def test_the_counts_kept_with_queues_are_those_of_the_records(path: str) -> None:
    """After a long mixed life every kept number equals a count."""
    store = open_sqlite(path)
    hand = Hand(store)
    for turn in range(200):
        put(store, queue=f"q{turn % 3}", delay=float(turn % 5 == 0) * 100, max_retries=turn % 3)
        if turn % 2:
            hand.take()
            (hand.complete, hand.fail, hand.retry, hand.give_back)[turn // 2 % 4]()
        if turn % 7 == 0:
            store.purge("q1", statuses=frozenset({Status.COMPLETED}), limit=2)
    store.close()
    with sqlite3.connect(path) as other:
        kept = {
            (name, status): count
            for name, *counts in other.execute(
                "SELECT name, scheduled, pending, running, completed, failed, cancelled FROM queues"
            )
            for status, count in enumerate(counts)
            if count
        }
        counted = {
            (name, status): count
            for name, status, count in other.execute(
                "SELECT q.name, j.status, count(*) FROM jobs j JOIN queues q ON q.id = j.queue GROUP BY 1, 2"
            )
        }
    other.close()
    assert kept == counted


# ---------------------------------------------------------------- hours


class Clock:
    """A wall clock that a test turns."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


def _work_an_hour(store: SqliteBackend, hand: Hand, jobs: int) -> None:
    for _ in range(jobs):
        put(store)
        hand.take()
        hand.complete()


def test_hours_are_kept_apart_and_old_ones_stay_in_the_totals(path: str) -> None:
    clock = Clock()
    store = open_sqlite(path, wall=clock)
    hand = Hand(store)
    for hour in range(100):
        _work_an_hour(store, hand, 1 + hour % 3)
        if hour % 10 == 0:
            store.forget(completed_s=0.0, failed_s=0.0, idempotency_s=0.0)
        clock.now += 3600.0
    clock.now -= 3600.0
    numbers = store.statistics()
    assert numbers.enqueued == numbers.completed == sum(1 + hour % 3 for hour in range(100))
    assert [hour["completed"] for hour in numbers.hours] == [1 + hour % 3 for hour in range(76, 100)]
    store.close()
    with sqlite3.connect(path) as other:
        assert other.execute("SELECT count(*) FROM hours").fetchone()[0] <= 60
    other.close()


def test_a_clock_set_back_loses_no_count_and_no_place(path: str) -> None:
    clock = Clock()
    store = open_sqlite(path, wall=clock)
    first = put(store)
    clock.now -= 7200.0
    second = put(store)
    assert abs(store.job(second).created_at - clock.now) < 1.0
    assert drain(Hand(store)) == [first, second]
    assert (store.statistics().enqueued, store.statistics().completed) == (2, 2)


def test_a_clock_set_back_a_little_is_told_of_each_job(path: str) -> None:
    clock = Clock()
    store = open_sqlite(path, wall=clock)
    began, ids = clock.now, [put(store), put(store)]
    for back in (0.5, 10.0, 20.0):
        clock.now = began - back
        ids.append(put(store))
    told = [store.job(job_id).created_at - began for job_id in ids]
    assert told == pytest.approx([0.0, 0.0, 0.0, -10.0, -20.0], abs=0.001)
    assert drain(Hand(store)) == ids


def test_a_plain_job_is_stored_by_few_statements(path: str) -> None:
    store = open_sqlite(path)
    for _ in range(3):
        put(store)
    seen: list[str] = []
    db = store._store._db
    assert db is not None
    db.set_trace_callback(seen.append)
    put(store)
    db.set_trace_callback(None)
    assert [sql.split()[0] for sql in seen] == ["BEGIN", "UPDATE", "INSERT", "COMMIT"]


def test_what_is_asked_of_a_queue_meanwhile_holds_for_a_plain_job_too(path: str) -> None:
    """Another process sets the limit, closes it, and stores the same id."""
    mine, other = open_sqlite(path), open_sqlite(path)
    job = new_job()
    for store in (mine, mine, other):
        put(store)
    other.enqueue([job])
    assert [receipt.replayed for receipt in mine.enqueue([job])] == [True]
    other.set_queue("default", max_pending=4)
    with pytest.raises(QueueFull):
        put(mine)
    other.set_queue("default", max_pending=5, paused=True)
    put(mine)
    with pytest.raises(QueueFull):
        put(mine)
    (queue,) = mine.queues()
    assert (queue.pending, mine.statistics().enqueued) == (5, 5)


def test_a_lane_recovered_by_another_process_is_not_believed_from_memory(path: str) -> None:
    """A worker remembers its lane between calls; what another process did to it meanwhile counts."""
    mine, other = open_sqlite(path), open_sqlite(path)
    hand = Hand(mine)
    job_id = put(mine)
    hand.take()
    other.recover(departure(hand.lane.worker, bar=False))
    assert hand.complete() is False
    assert other.job(job_id).status is Status.PENDING
    hand.take()
    other.recover(departure(hand.lane.worker))
    put(mine)
    with pytest.raises(LaneBarred):
        hand.settle(want=ANYTHING)
    assert other.job(job_id).status is Status.PENDING


def _plan(path: str, sql: str) -> list[str]:
    with sqlite3.connect(path) as other:
        plan = [row[3] for row in other.execute("EXPLAIN QUERY PLAN " + sql, (None,) * sql.count("?"))]
    other.close()
    return plan


FILES = ("books", "intake", "work", "upkeep", "inspection", "waiting")
STATEMENTS = [(file, name) for file in FILES for name in statements(f"{file}.sql") if name != "some jobs"]


@pytest.mark.parametrize("file, name", STATEMENTS, ids=lambda part: str(part).replace(" ", "-"))
def test_no_statement_walks_through_all_jobs(path: str, file: str, name: str) -> None:
    """What looks at jobs in bulk uses the small index of their state: a million finished ones cost nothing."""
    open_sqlite(path).queues()
    sql = statements(f"{file}.sql")[name].replace("{columns}", showing.JOB_COLUMNS).replace("{status}", "pending")
    walks = [
        step
        for step in _plan(path, sql)
        if re.search(r"SCAN (jobs|j)\b(?! USING INDEX jobs_((was_)?scheduled|failed))", step)
    ]
    assert walks == []


@pytest.mark.parametrize(
    "status, index",
    [
        (Status.SCHEDULED, "jobs_scheduled"),
        (Status.PENDING, "jobs_pending"),
        (Status.COMPLETED, "jobs_finished"),
        (Status.FAILED, "jobs_dead"),
        (Status.CANCELLED, "jobs_finished"),
    ],
)
def test_few_jobs_of_a_state_are_listed_by_its_own_index(path: str, status: Status, index: str) -> None:
    store = open_sqlite(path)
    put(store)
    assert index in str(_plan(path, _listing(store, JobFilter(status=status))))


def _listing(store: SqliteBackend, which: JobFilter) -> str:
    """The statement that a listing runs."""
    seen: list[str] = []
    store.ping()  # it is open: a fork in another test closes it
    db = store._store._db
    assert db is not None
    db.set_trace_callback(seen.append)
    store.jobs(which)
    db.set_trace_callback(None)
    [listing] = [sql for sql in seen if "DESC LIMIT" in sql]
    return listing


# ---------------------------------------------------------------- few of many

OTHERS = 200_000
IN_STORE = (Status.SCHEDULED, Status.PENDING, Status.COMPLETED, Status.FAILED, Status.CANCELLED)
FEW_OF_MANY = {
    **{f"{status} in a queue": (JobFilter(status=status, queue="rare"), 3) for status in IN_STORE},
    **{f"{status} of an owner": (JobFilter(status=status, owner="few"), 3) for status in IN_STORE},
    "running in a queue": (JobFilter(status=Status.RUNNING, queue="mail"), 0),
    "running of an owner": (JobFilter(status=Status.RUNNING, owner="shop"), 0),
    "of an owner": (JobFilter(owner="few"), 15),
    "of an owner in a queue": (JobFilter(owner="few", queue="mail"), 15),
    "of an owner nobody knows": (JobFilter(owner="nobody"), 0),
    "pending in a queue nobody knows": (JobFilter(status=Status.PENDING, queue="nowhere"), 0),
}


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqliteBackend]:
    """Many jobs in all states but running; those of the queue `rare` and of the owner `few` are the oldest."""
    path = str(tmp_path_factory.mktemp("crowded") / "jobpool.db")
    store = SqliteBackend(path)
    for terms in ({"queue": "rare"}, {"queue": "mail", "owner": "few"}, {"queue": "mail", "owner": "shop"}):
        put(store, **terms)
    store.close()
    with sqlite3.connect(path) as other:
        _multiply(other)
    other.close()
    yield store
    store.close()


def _multiply(db: sqlite3.Connection) -> None:
    """Fifteen jobs like each of the first two, and many like the third, a fifth in each state; counters to match."""
    db.create_function("numbered_id", 1, lambda n: n.to_bytes(6, "big") + b"\x70\x00\x80" + bytes(7))
    columns = [row[1] for row in db.execute("PRAGMA table_info(jobs)")]
    changed = {
        "rank": "n", "id": "numbered_id(n)", "status": "(n % 5) + (n % 5 > 1)", "watched": "(n % 5) + (n % 5 > 1)",
        "run_at": "CASE WHEN n % 5 = 0 THEN 4000000000.0 + n END", "finished_at": "CASE WHEN n % 5 > 1 THEN 1.0 * n END",
    }  # fmt: skip
    db.execute("CREATE TEMP TABLE seed AS SELECT row_number() OVER (ORDER BY rank) AS place, * FROM jobs")
    db.execute("DELETE FROM jobs")
    db.execute(
        f"WITH RECURSIVE n(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM n WHERE n < {OTHERS + 29}) "
        f"INSERT INTO jobs ({', '.join(columns)}) SELECT {', '.join(changed.get(c, c) for c in columns)} "
        "FROM n JOIN seed ON place = min(n / 15, 2) + 1"
    )
    for number, name in enumerate(("scheduled", "pending", "running", "completed", "failed", "cancelled")):
        db.execute(
            f"UPDATE queues SET {name} = (SELECT count(*) FROM jobs WHERE queue = queues.id AND status = {number})"
        )


def _steps(store: SqliteBackend, which: JobFilter) -> tuple[int, int]:
    """How many jobs a listing finds, and how many hundred steps SQLite makes for it."""
    ticks: list[int] = []
    db = store._store._db
    assert db is not None
    db.set_progress_handler(lambda: ticks.append(1), 100)
    found = store.jobs(which)
    db.set_progress_handler(None, 0)
    return len(found.jobs), len(ticks)


@pytest.mark.parametrize("name", FEW_OF_MANY, ids=lambda name: name.replace(" ", "-"))
def test_few_of_many_are_found_without_looking_at_the_others(crowded: SqliteBackend, name: str) -> None:
    which, expected = FEW_OF_MANY[name]
    crowded.jobs(JobFilter())
    shown, plain = _steps(crowded, JobFilter())
    assert shown == 50
    found, steps = _steps(crowded, which)
    assert found == expected
    assert steps < 10 * plain


@pytest.mark.parametrize(
    "which, index",
    [
        (JobFilter(status=Status.FAILED, queue="mail"), "jobs_dead_in_queue (queue=?"),
        (JobFilter(status=Status.CANCELLED, queue="rare"), "jobs_finished (status=? AND queue=?"),
        (JobFilter(status=Status.SCHEDULED, queue="mail"), "jobs_delayed (queue=?"),
        (JobFilter(status=Status.COMPLETED, queue="rare"), "jobs_finished (status=? AND queue=?"),
        (JobFilter(status=Status.FAILED, owner="shop"), "jobs_dead_of_owner (owner=?"),
        (JobFilter(status=Status.COMPLETED, owner="few"), "jobs_owner (owner=?"),
        (JobFilter(owner="few"), "jobs_owner (owner=?"),
    ],
    ids=str,
)
def test_queue_and_owner_have_indexes_of_their_own(crowded: SqliteBackend, which: JobFilter, index: str) -> None:
    assert index in str(_plan(crowded._store.path, _listing(crowded, which)))


def test_the_last_failed_are_found_without_looking_at_the_others(crowded: SqliteBackend) -> None:
    newest = crowded.last_failed(3)
    assert [job.finished_at for job in newest] == sorted((job.finished_at for job in newest), reverse=True)
    assert "jobs_failed" in str(
        _plan(crowded._store.path, statements("inspection.sql")["last failed"].format(columns="j.id"))
    )


def test_no_place_for_a_value_has_a_number() -> None:
    """Python 3.12 takes a numbered one for a named one, and warns at each call."""
    folder = Path(showing.__file__).parent
    assert [file.name for file in folder.glob("*.sql") if re.search(r"\?\d", file.read_text())] == []
