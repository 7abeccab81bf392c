"""Settlements: what each outcome does, and the fence that keeps late ones out."""

import pytest

from pool.backends.contract import Backend
from pool.jobs.job import Cause, Outcome
from pool.jobs.lifecycle import Reason, Status
from tests.helpers.builders import (
    LATER_SECONDS,
    Hand,
    failure,
    put,
)


def test_a_completed_job_keeps_its_result(store: Backend, hand: Hand) -> None:
    job_id = put(store)
    claim = hand.take()
    started = store.server_now()
    assert hand.settle(result='{"pages": 3}', started_at=started).settled is True
    job = store.job(job_id)
    assert (job.status, job.result, job.reason, job.error) == (Status.COMPLETED, '{"pages": 3}', None, None)
    assert (job.worker_id, job.claim, job.retry_count) == (None, claim.claim, 0)
    assert job.started_at == pytest.approx(started, abs=0.01)
    assert job.finished_at is not None and started <= job.finished_at + 0.01


def test_a_failed_job_keeps_why(store: Backend, hand: Hand) -> None:
    job_id = put(store)
    hand.take()
    cause = Cause(reason=Reason.FATAL_ERROR, exception="CardDeclined", text="card declined: do_not_honour")
    assert hand.settle(Outcome.FAILED, reason=Reason.FATAL_ERROR, cause=cause).settled
    job = store.job(job_id)
    assert (job.status, job.reason, job.worker_id) == (Status.FAILED, Reason.FATAL_ERROR, None)
    assert (job.exception, job.error) == ("CardDeclined", "card declined: do_not_honour")
    assert job.finished_at is not None


@pytest.mark.parametrize(
    "reason",
    [
        Reason.RETRIES_EXHAUSTED,
        Reason.TIMEOUT,
        Reason.UNKNOWN_TYPE,
        Reason.INVALID_PAYLOAD,
        Reason.MEMORY_LIMIT,
        Reason.INTERRUPTED,
    ],
)
def test_every_reason_to_give_up_is_kept_as_it_is(store: Backend, hand: Hand, reason: Reason) -> None:
    job_id = put(store)
    hand.take()
    hand.fail(reason)
    assert store.job(job_id).reason is reason


def test_a_retry_uses_one_and_waits(store: Backend, hand: Hand) -> None:
    job_id = put(store, queue="mail", priority=20)
    hand.take()
    before = store.server_now()
    assert hand.retry(delay=60.0)
    after = store.server_now()
    job = store.job(job_id)
    assert (job.status, job.retry_count, job.queue, job.priority) == (Status.SCHEDULED, 1, "mail", 20)
    assert (job.claimed_at, job.worker_id) == (None, None)
    assert (job.error, job.exception) == ("it broke", "ValueError")
    assert before + 59.9 <= job.run_at <= after + 60.1
    assert job.finished_at is None


def test_a_retry_without_a_wait_is_there_at_once(store: Backend, hands) -> None:
    job_id = put(store)
    hand = hands()
    hand.take()
    hand.retry(delay=0.0)
    claim = hands().take()
    assert (claim.job_id, claim.attempt, claim.retry_count) == (job_id, 2, 1)


def test_a_retry_without_a_wait_is_pending_and_not_scheduled(store: Backend, hand: Hand) -> None:
    """Scheduled means due later; this one is due now."""
    job_id = put(store)
    hand.take()
    hand.retry(delay=0.0)
    job = store.job(job_id)
    assert (job.status, job.retry_count) == (Status.PENDING, 1)
    assert [(queue.pending, queue.scheduled) for queue in store.queues()] == [(1, 0)]


def test_the_last_error_of_a_retried_job_goes_when_it_completes(store: Backend, hand: Hand) -> None:
    job_id = put(store)
    hand.take()
    hand.retry()
    hand.take()
    hand.complete()
    job = store.job(job_id)
    assert (job.status, job.retry_count, job.reason) == (Status.COMPLETED, 1, None)
    assert [attempt.outcome for attempt in job.attempts] == [Outcome.RETRIED, Outcome.COMPLETED]


def test_a_returned_job_costs_nothing(store: Backend, hand: Hand) -> None:
    job_id = put(store)
    hand.take()
    assert hand.give_back()
    job = store.job(job_id)
    assert (job.status, job.retry_count, job.kill_count, job.misfits) == (Status.PENDING, 0, 0, 0)
    assert (job.worker_id, job.claimed_at) == (None, None)


def test_a_returned_job_may_wait(store: Backend, hands) -> None:
    job_id = put(store)
    hand = hands()
    hand.take()
    hand.give_back(delay=LATER_SECONDS)
    job = store.job(job_id)
    assert (job.status, job.retry_count) == (Status.SCHEDULED, 0)
    assert hands().claim() is None


def test_a_misfit_is_counted_and_shown_to_the_next_worker(store: Backend, hand: Hand) -> None:
    job_id = put(store)
    for seen in range(3):
        assert hand.take().misfits == seen
        hand.give_back(misfit=True, cause=failure("unknown type", Reason.UNKNOWN_TYPE))
    job = store.job(job_id)
    assert (job.misfits, job.retry_count) == (3, 0)


def test_why_a_job_was_handed_back_is_shown_as_its_error(store: Backend, hand: Hand) -> None:
    job_id = put(store)
    hand.take()
    hand.give_back(misfit=True, cause=failure("no worker here knows this type", Reason.UNKNOWN_TYPE))
    job = store.job(job_id)
    assert (job.status, job.error) == (Status.PENDING, "no worker here knows this type")


def test_an_abandoned_job_is_cancelled(store: Backend, hand: Hand) -> None:
    job_id = put(store)
    hand.take()
    store.cancel(job_id)
    assert hand.settle(Outcome.CANCELLED, cause=failure(reason=Reason.CANCELLED)).settled
    job = store.job(job_id)
    assert (job.status, job.reason, job.worker_id) == (Status.CANCELLED, Reason.CANCELLED, None)
    assert job.finished_at is not None
