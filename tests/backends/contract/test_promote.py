"""Promotion: due jobs become pending in bounded rounds, once each, and the next due time is told."""

import pytest

from pool.backends.contract import Backend
from pool.jobs.lifecycle import Reason, Status
from tests.helpers.builders import Hand, drain, new_jobs, put
from tests.helpers.stores import Place, together
from tests.helpers.until import until


def _due(store: Backend, job_id: str) -> None:
    moment = store.job(job_id).run_at
    until(lambda: store.server_now() > moment, "the due time")


def test_nothing_scheduled_means_nothing_due(store: Backend) -> None:
    put(store)
    promotion = store.promote()
    assert (promotion.moved, promotion.next_due) == (0, None)


def test_the_next_due_time_is_told(store: Backend) -> None:
    later = put(store, delay=5000.0)
    sooner = put(store, delay=100.0)
    promotion = store.promote()
    assert promotion.moved == 0
    assert promotion.next_due == pytest.approx(store.job(sooner).run_at, abs=0.01)
    store.cancel(sooner)
    assert store.promote().next_due == pytest.approx(store.job(later).run_at, abs=0.01)


def test_due_jobs_become_pending_and_others_stay(store: Backend) -> None:
    due, later = put(store, delay=0.05), put(store, delay=500.0)
    _due(store, due)
    assert store.promote().moved == 1
    assert [store.job(job_id).status for job_id in (due, later)] == [Status.PENDING, Status.SCHEDULED]
    assert store.promote().moved == 0


def test_promotion_is_bounded_and_goes_on(store: Backend, hand: Hand) -> None:
    jobs = new_jobs(25, delay=0.05)
    store.enqueue(jobs)
    _due(store, jobs[-1].id)
    moved = [store.promote(limit=10).moved for _ in range(4)]
    assert moved == [10, 10, 5, 0]
    assert sorted(drain(hand)) == sorted(job.id for job in jobs)


def test_a_full_round_tells_that_more_is_due_now(store: Backend) -> None:
    jobs = new_jobs(5, delay=0.05)
    store.enqueue(jobs)
    _due(store, jobs[-1].id)
    promotion = store.promote(limit=2)
    assert promotion.next_due is not None and promotion.next_due <= store.server_now()


def test_expired_jobs_are_cancelled_by_promotion(store: Backend) -> None:
    pending, scheduled = put(store, expires_in=0.05), put(store, delay=500.0, expires_in=0.05)
    until(lambda: store.server_now() > (store.job(scheduled).expires_at or 0), "the expiry")
    until(lambda: store.promote() and store.job(scheduled).status is Status.CANCELLED, "cancellation", within=10)
    for job_id in (pending, scheduled):
        job = store.job(job_id)
        assert (job.status, job.reason) == (Status.CANCELLED, Reason.EXPIRED)
        assert job.finished_at is not None
    assert store.statistics().cancelled == 2


def test_a_job_that_is_due_and_expired_never_runs(store: Backend, hand: Hand) -> None:
    job_id = put(store, delay=0.05, expires_in=0.05)
    until(lambda: store.server_now() > (store.job(job_id).expires_at or 0) + 0.01, "the expiry")
    assert hand.claim() is None
    store.promote()
    assert store.job(job_id).reason is Reason.EXPIRED


def test_promoted_jobs_are_served_by_priority(store: Backend, hand: Hand) -> None:
    ids = [put(store, delay=0.05, priority=priority) for priority in (1, 99, 50)]
    _due(store, ids[-1])
    store.promote()
    assert drain(hand) == [ids[1], ids[2], ids[0]]


def test_many_promoters_move_each_job_once(place: Place) -> None:
    store = place.open()
    jobs = new_jobs(400, delay=0.3)
    store.enqueue(jobs)

    def work(_: int) -> int:
        mine, moved = place.open(), 0
        _due(mine, jobs[-1].id)
        while round_ := mine.promote(limit=7).moved:
            moved += round_
        return moved

    assert sum(together(4, work)) == 400
    assert [(queue.pending, queue.scheduled) for queue in store.queues()] == [(400, 0)]
    assert len(set(drain(Hand(store)))) == 400
