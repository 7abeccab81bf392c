"""A record that cannot be read is set aside as a dead letter; it neither kills a worker nor holds up the others."""

import sqlite3
import uuid
from contextlib import closing

import pytest
import redis

from pool.backends.contract import Backend, JobFilter, Want
from pool.jobs.lifecycle import Reason, Status
from tests.helpers.builders import Hand, drain, put
from tests.helpers.spoil import spoil
from tests.helpers.stores import Place
from tests.helpers.until import until

WANTS = [Want(), Want(("default",)), Want(min_priority=5)]


@pytest.mark.parametrize("want", WANTS, ids=str)
def test_an_unreadable_job_is_set_aside_and_the_next_is_served(place: Place, store: Backend, want: Want) -> None:
    broken, good = put(store), put(store)
    spoil(place, broken)
    assert until(lambda: Hand(store).claim(want), "the good job").job_id == good
    job = store.job(broken)
    assert (job.status, job.reason) == (Status.FAILED, Reason.INVALID_RECORD)


def test_many_unreadable_jobs_hold_nobody_up(place: Place, store: Backend, hand: Hand) -> None:
    ids = [put(store) for _ in range(60)]
    for job_id in ids[:50]:
        spoil(place, job_id)
    seen: list[str] = []
    until(lambda: seen.extend(drain(hand)) or len(seen) == 10, "the good jobs")
    assert seen == ids[50:]
    [queue] = store.queues()
    assert (queue.pending, queue.running, queue.completed, queue.failed) == (0, 0, 10, 50)


def test_an_unreadable_scheduled_job_is_set_aside_when_it_is_due(place: Place, store: Backend, hand: Hand) -> None:
    broken = put(store, delay=0.2)
    due = store.job(broken).run_at
    spoil(place, broken)
    until(lambda: store.server_now() > due, "the due time")
    store.promote()
    assert hand.claim() is None
    assert store.job(broken).reason is Reason.INVALID_RECORD


def test_dead_letters_that_cannot_be_read_can_be_listed_and_discarded(place: Place, store: Backend, hand: Hand) -> None:
    broken = put(store)
    spoil(place, broken)
    assert hand.claim() is None
    assert [job.id for job in store.jobs(JobFilter(status=Status.FAILED)).jobs] == [broken]
    assert store.discard(broken).status is Status.CANCELLED


def test_looking_at_an_unreadable_job_harms_nothing(place: Place, store: Backend) -> None:
    from pool.errors import JobpoolError

    broken, good = put(store, delay=1000.0), put(store)
    spoil(place, broken)
    store.queues()
    store.statistics()
    for look in (lambda: store.job(broken), lambda: store.jobs(JobFilter())):
        try:
            look()
        except JobpoolError as told:
            assert str(told)
    assert store.job(good).status is Status.PENDING


# ---------------------------------------------------------------- found by tests/fuzz: one field of many


def _overwrite(place: Place, job_id: str, *, column: str, value: object, redis_key: str, redis_value: bytes) -> None:
    raw = uuid.UUID(job_id).bytes
    if place.kind == "sqlite":
        with closing(sqlite3.connect(place.url.removeprefix("sqlite:///"), timeout=30)) as db, db:
            db.execute(f"UPDATE jobs SET {column} = ? WHERE id = ?", (value, raw))
        return
    with redis.Redis.from_url(place.url) as client:
        client.hset(f"{{jobpool:{place.namespace}}}:{redis_key}", raw, redis_value)


def test_a_broken_date_or_state_of_a_waiting_job_sets_it_aside(place: Place, store: Backend, hands) -> None:
    broken, hand = put(store), hands()
    hand.take()
    hand.give_back()
    _overwrite(place, broken, column="expires_at", value=b"\xff", redis_key="state", redis_value=b"w\x00")
    good = put(store)
    assert drain(hands()) == [good]
    job = store.job(broken)
    assert (job.status, job.reason) == (Status.FAILED, Reason.INVALID_RECORD)


def test_a_broken_history_hides_no_job(place: Place, store: Backend, hand: Hand) -> None:
    job_id = put(store)
    hand.take()
    hand.fail()
    _overwrite(place, job_id, column="history", value="[[1", redis_key="past", redis_value=b"\x00\x00\x00\x3c\x00")
    job = store.job(job_id)
    assert (job.status, job.attempts) == (Status.FAILED, ())
    assert store.revive(job_id).status is Status.PENDING
    assert drain(hand) == [job_id]


def test_a_broken_counter_is_counted_anew_and_refuses_no_job(place: Place, store: Backend, hand: Hand) -> None:
    put(store)
    if place.kind == "sqlite":
        with closing(sqlite3.connect(place.url.removeprefix("sqlite:///"), timeout=30)) as db, db:
            db.execute("UPDATE queues SET hour = x'ff00'")
    else:
        with redis.Redis.from_url(place.url) as client:
            key = f"{{jobpool:{place.namespace}}}:stats"
            for name in client.hkeys(key):
                client.hset(key, name, b"x")
    put(store)
    assert len(drain(hand)) == 2
    assert store.statistics().completed >= 0
