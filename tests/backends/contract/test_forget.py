"""Forgetting: finished jobs and old keys go when their time is over, in bounded steps, and nothing else goes."""

import pytest

from pool.backends.contract import Backend, JobFilter
from pool.errors import JobNotFound
from pool.jobs.lifecycle import Status
from tests.helpers.builders import Hand, drain, new_jobs
from tests.helpers.states import WAYS, make, unchanged
from tests.helpers.until import until

LONG = 1e9


def _pass_time(store: Backend) -> None:
    """Until the store's clock has left the moment of the last change."""
    moment = store.server_now()
    until(lambda: store.server_now() > moment + 0.01, "the next moment")


@pytest.mark.parametrize("way", WAYS)
def test_only_what_is_over_is_forgotten(store: Backend, way: str) -> None:
    made = make(store, way)
    _pass_time(store)
    forgotten = store.forget(completed_s=0.0, failed_s=0.0, idempotency_s=0.0)
    assert forgotten == (0 if WAYS[way][0].is_live else 1)
    if WAYS[way][0].is_live:
        assert store.job(made.job_id).status is WAYS[way][0]
    else:
        with pytest.raises(JobNotFound):
            store.job(made.job_id)


@pytest.mark.parametrize("way", WAYS)
def test_nothing_is_forgotten_before_its_time(store: Backend, way: str) -> None:
    make(store, way, idempotency_key="k")
    with unchanged(store):
        assert store.forget(completed_s=3600.0, failed_s=3600.0, idempotency_s=3600.0) == 0


def test_completed_and_failed_jobs_have_times_of_their_own(store: Backend) -> None:
    completed, failed = make(store, "completed").job_id, make(store, "failed").job_id
    _pass_time(store)
    assert store.forget(completed_s=0.0, failed_s=LONG, idempotency_s=LONG) == 1
    assert [job.id for job in store.jobs(JobFilter()).jobs] == [failed]
    assert store.forget(completed_s=LONG, failed_s=0.0, idempotency_s=LONG) == 1
    with pytest.raises(JobNotFound):
        store.job(completed)


@pytest.mark.parametrize("way", ["cancelled", "discarded"])
def test_cancelled_jobs_go_with_the_completed_ones(store: Backend, way: str) -> None:
    make(store, way)
    _pass_time(store)
    assert store.forget(completed_s=LONG, failed_s=0.0, idempotency_s=LONG) == 0
    assert store.forget(completed_s=0.0, failed_s=LONG, idempotency_s=LONG) == 1


def test_forgetting_works_in_bounded_steps(store: Backend, hand: Hand) -> None:
    store.enqueue(new_jobs(25))
    drain(hand)
    _pass_time(store)
    steps = []
    while not steps or steps[-1]:
        steps.append(store.forget(completed_s=0.0, failed_s=0.0, idempotency_s=0.0, limit=10))
        assert steps[-1] <= 10
    assert sum(steps) == 25
    assert store.jobs(JobFilter()).jobs == ()


def test_the_oldest_go_first(store: Backend, hand: Hand) -> None:
    store.enqueue(new_jobs(6))
    order = drain(hand)
    _pass_time(store)
    assert store.forget(completed_s=0.0, failed_s=0.0, idempotency_s=LONG, limit=4) == 4
    assert {job.id for job in store.jobs(JobFilter()).jobs} == set(order[4:])


def test_a_revived_job_is_not_forgotten(store: Backend, hand: Hand) -> None:
    made = make(store, "failed", hand)
    store.revive(made.job_id)
    _pass_time(store)
    assert store.forget(completed_s=0.0, failed_s=0.0, idempotency_s=0.0) == 0
    assert hand.take().job_id == made.job_id


def test_an_empty_store_has_nothing_to_forget(store: Backend) -> None:
    assert store.forget(completed_s=0.0, failed_s=0.0, idempotency_s=0.0) == 0


def test_a_queue_whose_jobs_are_forgotten_counts_nothing(store: Backend) -> None:
    make(store, "completed")
    make(store, "failed")
    _pass_time(store)
    until(lambda: store.forget(completed_s=0.0, failed_s=0.0, idempotency_s=0.0) == 0, "the records' end")
    assert [(q.pending, q.scheduled, q.running, q.failed) for q in store.queues()] in ([], [(0, 0, 0, 0)])
    assert store.jobs(JobFilter(status=Status.FAILED)).jobs == ()
