"""Unique keys: held by a live job, free as soon as it is over, whatever ended it."""

from collections.abc import Callable

import pytest

from pool.backends.contract import Backend
from pool.errors import UniqueConflict
from pool.jobs.job import Outcome
from pool.jobs.lifecycle import Reason, Status
from tests.helpers.builders import LATER_SECONDS, Hand, died_working, new_job, put
from tests.helpers.states import WAYS, make, unchanged
from tests.helpers.until import until


@pytest.mark.parametrize("way", [way for way, (status, _) in WAYS.items() if status.is_live])
def test_a_live_job_holds_its_key(store: Backend, way: str) -> None:
    made = make(store, way, unique_key="u")
    with unchanged(store):
        again = store.enqueue([new_job(unique_key="u", payload='{"other": 1}')])[0]
    assert (again.job_id, again.replayed) == (made.job_id, True)
    assert again.status is WAYS[way][0]


@pytest.mark.parametrize("way", [way for way, (status, _) in WAYS.items() if not status.is_live])
def test_a_job_that_is_over_frees_its_key(store: Backend, way: str) -> None:
    made = make(store, way, unique_key="u")
    again = store.enqueue([new_job(unique_key="u")])[0]
    assert not again.replayed and again.job_id != made.job_id


def _lost_at_most_once(store: Backend) -> None:
    hand = Hand(store)
    put(store, unique_key="u", max_retries=0)
    hand.take()
    store.recover(died_working(hand))


def _flagged_and_lost(store: Backend) -> None:
    made = make(store, "flagged", unique_key="u")
    store.recover(died_working(made.hand))


def _flagged_and_returned(store: Backend) -> None:
    make(store, "flagged", unique_key="u").hand.give_back()


def _expired(store: Backend) -> None:
    job_id = put(store, unique_key="u", expires_in=0.01)
    until(lambda: store.server_now() > (store.job(job_id).expires_at or 0), "the expiry")
    store.promote()


def _purged(store: Backend) -> None:
    put(store, unique_key="u")
    store.purge("default", statuses=frozenset({Status.PENDING}))


def _scheduled_and_purged(store: Backend) -> None:
    put(store, unique_key="u", delay=LATER_SECONDS)
    store.purge("default", statuses=frozenset({Status.SCHEDULED}))


def _forgotten(store: Backend) -> None:
    make(store, "completed", unique_key="u")
    until(lambda: store.forget(completed_s=0.0, failed_s=0.0, idempotency_s=0.0) == 1, "the record's end")


ENDS: list[Callable[[Backend], None]] = [
    _lost_at_most_once,
    _flagged_and_lost,
    _flagged_and_returned,
    _expired,
    _purged,
    _scheduled_and_purged,
    _forgotten,
]


@pytest.mark.parametrize("end", ENDS, ids=lambda end: end.__name__.strip("_"))
def test_every_other_end_frees_the_key_too(store: Backend, end: Callable[[Backend], None]) -> None:
    end(store)
    assert not store.enqueue([new_job(unique_key="u")])[0].replayed


def test_the_end_of_an_older_job_leaves_the_younger_ones_key_alone(store: Backend, hands) -> None:
    older = make(store, "failed", unique_key="u").job_id
    younger = put(store, unique_key="u")
    store.discard(older)
    assert store.enqueue([new_job(unique_key="u")])[0].job_id == younger
    until(lambda: store.forget(completed_s=0.0, failed_s=0.0, idempotency_s=0.0) == 0, "the end of the records")
    assert store.enqueue([new_job(unique_key="u")])[0].job_id == younger


@pytest.mark.parametrize("way", ["failed", "cancelled"])
def test_a_job_does_not_come_back_beside_the_holder_of_its_key(store: Backend, way: str) -> None:
    older = make(store, way, unique_key="u").job_id
    younger = put(store, unique_key="u")
    with unchanged(store), pytest.raises(UniqueConflict) as refused:
        store.revive(older)
    assert (refused.value.unique_key, refused.value.holder) == ("u", younger)


def test_a_job_that_comes_back_holds_its_key_again(store: Backend) -> None:
    older = make(store, "failed", unique_key="u").job_id
    store.revive(older)
    again = store.enqueue([new_job(unique_key="u")])[0]
    assert (again.job_id, again.replayed) == (older, True)


def test_a_key_stays_held_over_retries_losses_and_hand_backs(store: Backend, hands) -> None:
    job_id = put(store, unique_key="u", max_retries=9)
    for end in ("retry", "return", "loss"):
        hand = hands()
        hand.take()
        if end == "retry":
            hand.retry()
        elif end == "return":
            hand.settle(Outcome.RETURNED)
        else:
            store.recover(died_working(hand, reason=Reason.MEMORY_LIMIT))
        assert store.enqueue([new_job(unique_key="u")])[0].job_id == job_id


def test_a_unique_key_and_an_idempotency_key_are_two_things(store: Backend) -> None:
    first = put(store, unique_key="same")
    second = put(store, idempotency_key="same")
    assert first != second


def test_the_unique_key_is_one_for_all_owners(store: Backend) -> None:
    first = put(store, unique_key="u", owner="shop")
    assert put(store, unique_key="u", owner="blog") == first
