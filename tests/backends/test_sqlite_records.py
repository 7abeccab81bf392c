"""Records that somebody or something has broken: set aside, never raised at a worker, and still shown to people."""

import json
import sqlite3
from pathlib import Path

import pytest

from pool.backends.contract import JobFilter
from pool.backends.sqlite.backend import SqliteBackend
from pool.jobs.lifecycle import MOVES, Reason, Status
from tests.helpers.builders import Hand, drain, new_job, put

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


@pytest.mark.parametrize("how", BREAKS, ids=lambda how: how.replace(" ", "-"))
def test_a_broken_record_is_set_aside_and_the_next_job_is_handed_out(path: str, how: str) -> None:
    store = SqliteBackend(path)
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
    store = SqliteBackend(path)
    put(store, delay=0.01)
    store.close()
    _break(path, BREAKS["payload is missing"])
    assert drain(Hand(store)) == []
    while store.queues()[0].failed == 0:
        assert drain(Hand(store)) == []


def test_a_broken_history_begins_anew(path: str) -> None:
    store = SqliteBackend(path)
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
    store = SqliteBackend(path)
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
    from tests.helpers.builders import beat, some_pool

    store = SqliteBackend(path)
    store.beat(beat(some_pool(), facts="{"))
    assert store.pools()[0].facts == {}
    store.beat(beat(some_pool(), facts=json.dumps({"version": "1"})))
    assert store.pools()[1].facts == {"version": "1"}


def test_the_counts_kept_with_queues_are_those_of_the_records(path: str) -> None:
    """After a long mixed life every kept number equals a count."""
    store = SqliteBackend(path)
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
