"""Bars: a worker that was declared dead claims nothing more, whatever arrives late; its successor works."""

import pytest

from pool.backends.contract import Backend
from pool.errors import LaneBarred
from pool.jobs.lifecycle import Status
from tests.helpers.builders import (
    ANYTHING,
    Hand,
    departure,
    died_working,
    new_jobs,
    put,
    settlement,
)
from tests.helpers.states import unchanged


def test_a_claim_of_the_dead_that_arrives_late_is_refused(store: Backend, hands) -> None:
    """TERM makes an idle worker leave while its claim is on the wire."""
    hand = hands()
    store.recover(departure(hand.lane.worker))
    put(store)
    with unchanged(store), pytest.raises(LaneBarred):
        hand.claim()


def test_every_lane_of_the_dead_is_barred(store: Backend, hands) -> None:
    store.recover(departure(hands(slot=0).lane.worker))
    put(store)
    for lane in range(3):
        with pytest.raises(LaneBarred):
            hands(slot=0, lane=lane).claim()


def test_the_replacement_with_the_next_generation_works(store: Backend, hands) -> None:
    old, new = hands(slot=0, generation=1), hands(slot=0, generation=2)
    job_id = put(store)
    old.take()
    store.recover(died_working(old))
    assert new.take().job_id == job_id
    assert new.complete()


def test_a_bar_holds_for_all_generations_up_to_the_dead_one_and_never_falls(store: Backend, hands) -> None:
    store.enqueue(new_jobs(3))
    store.recover(departure(hands(slot=0, generation=5).lane.worker))
    store.recover(departure(hands(slot=0, generation=2).lane.worker))
    for generation in (1, 2, 5):
        with pytest.raises(LaneBarred):
            hands(slot=0, generation=generation).claim()
    assert hands(slot=0, generation=6).claim() is not None
    assert hands(slot=1, generation=1).claim() is not None
    assert Hand(store).claim() is not None


def test_without_a_bar_the_living_predecessor_works_on(store: Backend, hands) -> None:
    """A replacement that never became ready must not bar the one it was to replace."""
    living, unborn = hands(slot=0, generation=1), hands(slot=0, generation=2)
    store.enqueue(new_jobs(2))
    living.take()
    assert store.recover(departure(unborn.lane.worker, bar=False)) == []
    answer = living.settle(want=ANYTHING)
    assert answer.settled and answer.claim is not None


def test_a_barred_worker_that_still_holds_its_job_may_settle_it(store: Backend, hands) -> None:
    """Its successor died first: the bar covers it, its job was never taken."""
    old, new = hands(slot=0, generation=1), hands(slot=0, generation=2)
    job_id = put(store)
    old.take()
    store.recover(departure(new.lane.worker))
    assert old.complete() is True
    assert store.job(job_id).status is Status.COMPLETED


def test_a_barred_worker_that_settles_and_claims_has_its_settlement_taken_first(store: Backend, hands) -> None:
    old, new = hands(slot=0, generation=1), hands(slot=0, generation=2)
    done, waiting = put(store), put(store)
    old.take()
    store.recover(departure(new.lane.worker))
    with pytest.raises(LaneBarred):
        old.settle(want=ANYTHING)
    assert store.job(done).status is Status.COMPLETED
    assert store.job(waiting).status is Status.PENDING


def test_a_barred_worker_that_lost_its_job_settles_nothing(store: Backend, hands) -> None:
    hand = hands()
    put(store)
    claim = hand.take()
    store.recover(died_working(hand))
    with unchanged(store):
        assert hand.exchange(settlement=settlement(claim)).settled is False
        with pytest.raises(LaneBarred):
            hand.exchange(settlement=settlement(claim), want=ANYTHING)


def test_a_repeated_settle_and_claim_of_a_barred_worker_acts_once(store: Backend, hands) -> None:
    old, new = hands(slot=0, generation=1), hands(slot=0, generation=2)
    put(store)
    claim = old.take()
    store.recover(departure(new.lane.worker))
    for _ in range(3):
        with pytest.raises(LaneBarred):
            store.exchange(old.lane, 2, settlement=settlement(claim), want=ANYTHING)
    assert store.job(claim.job_id).status is Status.COMPLETED
    assert store.statistics().completed == 1
