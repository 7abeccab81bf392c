"""The fence: a settlement counts only from the current holder under the current claim number."""

import pytest

from pool.backends.contract import Backend
from pool.jobs.job import Outcome
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
