"""A record that cannot be read is set aside as a dead letter; it neither kills a worker nor holds up the others."""

import pytest

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
