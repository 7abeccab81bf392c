"""A worker whose keeper lives leaves the store alone while it sleeps: lost rings and sooner times are the keeper's to notice."""

import os
import time
from collections.abc import Callable

import pytest

from pool.backends.contract import Backend, Want
from pool.descriptors import readable
from tests.helpers.builders import ANYTHING, Hand, put
from tests.helpers.stores import Child, Place, in_child
from tests.helpers.unheard import put_unheard
from tests.helpers.until import until

LONG_SECONDS = 30.0
SHORT_SECONDS = 0.3


def _asleep(place: Place, want: Want) -> Child:
    """A worker in a process of its own, asleep with a keeper's promise; it tells whether it was rung, and how long it slept."""
    ready_out, ready_in = os.pipe()

    def nap() -> tuple[bool, float]:
        store = place.open()
        store.wait(want, 0)
        os.write(ready_in, b"!")
        begin = time.monotonic()
        return store.wait(want, LONG_SECONDS, watched=True), time.monotonic() - begin

    child = in_child(nap)
    os.read(ready_out, 1)
    os.close(ready_out)
    os.close(ready_in)
    return child


def test_a_wait_tells_whether_somebody_rang(store: Backend, stores: Callable[[], Backend]) -> None:
    assert not store.wait(ANYTHING, 0)
    assert not store.wait(ANYTHING, SHORT_SECONDS)
    assert not store.wait(ANYTHING, SHORT_SECONDS, watched=True)
    put(stores())
    assert store.wait(ANYTHING, LONG_SECONDS, watched=True)


def test_an_interrupt_alone_is_no_ring(store: Backend) -> None:
    store.wait(ANYTHING, 0)
    out, into = os.pipe()
    os.write(into, b"!")
    assert not store.wait(ANYTHING, LONG_SECONDS, interrupt_fd=out)
    assert not store.wait(ANYTHING, LONG_SECONDS, interrupt_fd=out, watched=True)
    os.close(out)
    os.close(into)


def test_a_worker_without_a_keeper_finds_a_job_whose_ring_was_lost(
    store: Backend, stores: Callable[[], Backend]
) -> None:
    store.wait(ANYTHING, 0)
    put_unheard(stores())
    assert store.wait(ANYTHING, LONG_SECONDS)


def test_a_watched_sleeper_leaves_the_store_alone(store: Backend, stores: Callable[[], Backend]) -> None:
    store.wait(ANYTHING, 0)
    Hand(store).claim()
    put_unheard(stores())
    assert not store.wait(ANYTHING, SHORT_SECONDS, watched=True)


@pytest.mark.parametrize("want", [ANYTHING, Want(("default", "mail")), Want(("default",), min_priority=5)], ids=str)
def test_promoting_wakes_who_sleeps_beside_a_job_whose_ring_was_lost(place: Place, want: Want) -> None:
    sleeper, store = _asleep(place, want), place.open()
    put_unheard(store)
    store.promote()
    rung, slept = sleeper.result()
    assert rung and slept < LONG_SECONDS / 2


def test_promoting_wakes_nobody_for_jobs_that_he_may_not_take(store: Backend, stores: Callable[[], Backend]) -> None:
    want = Want(("mail",))
    store.wait(want, 0)
    keeper = stores()
    put_unheard(keeper)
    keeper.promote()
    keeper.set_queue("mail", paused=True)
    put_unheard(keeper, queue="mail")
    keeper.promote()
    assert not store.wait(want, SHORT_SECONDS, watched=True)


def test_promoting_tells_whether_anything_waits(store: Backend) -> None:
    assert not store.promote().is_waiting
    put(store)
    assert store.promote().is_waiting
    hand = Hand(store)
    hand.take()
    assert hand.complete()
    assert not store.promote().is_waiting


# ---------------------------------------------------------------- sooner times


def _rings(keeper: Backend, seconds: float) -> bool:
    fd = keeper.alarm()
    assert fd is not None
    return bool(readable([fd], seconds))


def _sleeping_keeper(store: Backend) -> Backend:
    """It knows what is there, and has its alarm."""
    store.promote()
    store.alarm()
    store.promote()
    return store


def test_a_sooner_time_rings_the_keepers_alarm_until_it_promotes(store: Backend, stores: Callable[[], Backend]) -> None:
    keeper = _sleeping_keeper(store)
    assert not _rings(keeper, SHORT_SECONDS)
    for delay in (500.0, 400.0, 300.0):
        put(stores(), delay=delay)
        assert _rings(keeper, LONG_SECONDS), f"a job due in {delay} s"
        told = keeper.promote()
        assert told.next_due is not None and told.next_due - keeper.server_now() < delay
        assert not _rings(keeper, SHORT_SECONDS)


def test_a_retry_rings_the_keepers_alarm(store: Backend, stores: Callable[[], Backend]) -> None:
    keeper, hand = _sleeping_keeper(store), Hand(stores())
    put(hand.store, max_retries=3)
    hand.take()
    hand.retry(delay=100.0)
    assert _rings(keeper, LONG_SECONDS)


def test_one_of_two_keepers_hears_of_a_sooner_time(stores: Callable[[], Backend]) -> None:
    keepers = [_sleeping_keeper(stores()), _sleeping_keeper(stores())]
    put(stores(), delay=100.0)
    until(lambda: any(_rings(keeper, 0.1) for keeper in keepers), "a keeper that was rung")
