"""Settlements: what each outcome does, and the fence that keeps late ones out."""

import pytest

from pool.backends.contract import Backend
from pool.errors import ClaimLost
from pool.jobs.job import Cause, Outcome
from pool.jobs.lifecycle import Reason, Status
from tests.helpers.builders import (
    ANYTHING,
    LATER_SECONDS,
    Hand,
    departure,
    failure,
    put,
    settlement,
)
from tests.helpers.states import unchanged


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


# ---------------------------------------------------------------- the fence


def test_a_late_word_after_the_job_was_given_away_changes_nothing(store: Backend, hands) -> None:
    put(store)
    slow, quick = hands(), hands()
    old = slow.take()
    store.recover(departure(slow.lane.worker, bar=False))
    new = quick.take()
    assert new.claim > old.claim
    for outcome in (Outcome.COMPLETED, Outcome.FAILED, Outcome.RETRIED, Outcome.RETURNED, Outcome.CANCELLED):
        with unchanged(store):
            answer = slow.exchange(settlement=settlement(old, outcome, reason=Reason.FATAL_ERROR))
        assert answer.settled is False
    assert quick.complete()


def test_a_late_word_after_the_same_lane_returned_and_reclaimed_changes_nothing(store: Backend, hand: Hand) -> None:
    put(store)
    old = hand.take()
    hand.give_back()
    new = hand.take()
    with unchanged(store):
        assert hand.exchange(settlement=settlement(old)).settled is False
    hand.held = new
    assert hand.complete()


@pytest.mark.parametrize("offset", [-1, 1, 1000, 2**40])
def test_another_claim_number_is_no_claim(store: Backend, hand: Hand, offset: int) -> None:
    put(store)
    hand.take()
    hand.give_back()
    claim = hand.take()
    from dataclasses import replace

    with unchanged(store):
        wrong = settlement(replace(claim, claim=claim.claim + offset))
        assert hand.exchange(settlement=wrong).settled is False


def test_another_lane_of_the_same_worker_is_no_holder(store: Backend, hands) -> None:
    put(store)
    first, second = hands(slot=0, lane=0), hands(slot=0, lane=1)
    claim = first.take()
    with unchanged(store):
        assert second.exchange(settlement=settlement(claim)).settled is False


@pytest.mark.parametrize(("slot", "generation"), [(0, 2), (1, 1), (1, 2)])
def test_another_worker_of_the_same_pool_is_no_holder(store: Backend, hands, slot: int, generation: int) -> None:
    put(store)
    claim = hands(slot=0).take()
    with unchanged(store):
        other = hands(slot=slot, generation=generation)
        assert other.exchange(settlement=settlement(claim)).settled is False


def test_the_same_slot_of_another_life_of_the_pool_is_no_holder(store: Backend, hands) -> None:
    put(store)
    claim = hands(slot=0).take()
    with unchanged(store):
        assert Hand(store).exchange(settlement=settlement(claim)).settled is False


def test_another_job_is_not_settled_under_this_claim(store: Backend, hand: Hand) -> None:
    put(store)
    claim = hand.take()
    other = put(store, queue="elsewhere")
    from dataclasses import replace

    with unchanged(store):
        assert hand.exchange(settlement=settlement(replace(claim, job_id=other))).settled is False


def test_a_settlement_of_a_job_that_never_was_is_refused(store: Backend, hand: Hand) -> None:
    from dataclasses import replace

    from pool.jobs.ids import new_job_id

    put(store)
    claim = hand.take()
    hand.complete()
    with unchanged(store):
        assert hand.exchange(settlement=settlement(replace(claim, job_id=new_job_id()))).settled is False


def test_a_settlement_of_a_purged_job_is_refused(store: Backend, hand: Hand) -> None:
    put(store)
    claim = hand.take()
    hand.complete()
    store.purge("default", statuses=frozenset({Status.COMPLETED}))
    with unchanged(store):
        assert hand.exchange(settlement=settlement(claim, Outcome.RETRIED)).settled is False


def test_a_refused_settlement_still_hands_out_the_next_job(store: Backend, hands) -> None:
    put(store)
    slow = hands()
    old = slow.take()
    store.recover(departure(slow.lane.worker, bar=False))
    hands().take()
    fresh = put(store)
    answer = slow.exchange(settlement=settlement(old), want=ANYTHING)
    assert answer.settled is False
    assert answer.claim is not None and answer.claim.job_id == fresh


def test_repeating_an_accepted_settlement_under_a_new_request_is_harmless(store: Backend, hand: Hand) -> None:
    put(store)
    claim = hand.take()
    hand.settle(result="1")
    with unchanged(store):
        hand.exchange(settlement=settlement(claim, result="1"))


def test_an_accepted_retry_said_again_after_the_next_claim_does_not_count_twice(store: Backend, hand: Hand) -> None:
    job_id = put(store)
    claim = hand.take()
    hand.retry(delay=LATER_SECONDS)
    with unchanged(store):
        hand.exchange(settlement=settlement(claim, Outcome.RETRIED, delay=LATER_SECONDS, cause=failure()))
    assert store.job(job_id).retry_count == 1


# ---------------------------------------------------------------- reports


def test_progress_of_a_running_job_is_shown(store: Backend, hand: Hand) -> None:
    job_id = put(store)
    hand.take()
    assert store.report(hand.as_held(), progress=0.25, note="page 5 of 20") is False
    job = store.job(job_id)
    assert (job.progress, job.progress_note) == (0.25, "page 5 of 20")
    assert store.report(hand.as_held(), progress=0.5) is False
    assert store.job(job_id).progress == 0.5


def test_the_next_run_starts_without_the_progress_of_the_last(store: Backend, hand: Hand) -> None:
    job_id = put(store)
    hand.take()
    store.report(hand.as_held(), progress=0.9, note="nearly done")
    hand.retry()
    hand.take()
    job = store.job(job_id)
    assert (job.status, job.progress, job.progress_note) == (Status.RUNNING, None, None)


def test_a_checkpoint_comes_back_with_the_next_claim(store: Backend, hands) -> None:
    put(store)
    first = hands()
    first.take()
    store.report(first.as_held(), checkpoint='{"row": 7000}')
    store.recover(departure(first.lane.worker, started={0: 1}))
    assert hands().take().checkpoint == '{"row": 7000}'


def test_a_report_tells_of_a_cancel(store: Backend, hand: Hand) -> None:
    job_id = put(store)
    hand.take()
    store.cancel(job_id)
    assert store.report(hand.as_held(), progress=0.1) is True
    assert store.report(hand.as_held()) is True


@pytest.mark.parametrize("end", ["completed", "given away", "purged"])
def test_a_report_under_a_lost_claim_says_so_and_creates_nothing(store: Backend, hands, end: str) -> None:
    put(store)
    slow = hands()
    slow.take()
    held = slow.as_held()
    if end == "given away":
        store.recover(departure(slow.lane.worker, bar=False))
        hands().take()
    else:
        slow.complete()
    if end == "purged":
        store.purge("default", statuses=frozenset({Status.COMPLETED}))
    with unchanged(store), pytest.raises(ClaimLost):
        store.report(held, progress=0.9, note="late", checkpoint="{}")
