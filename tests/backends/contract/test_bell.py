"""Waiting: a worker sleeps until there may be work, and wakes for every kind of work."""

import os
import time
from collections.abc import Callable

import pytest

from pool.backends.contract import ANY_QUEUE, Backend, Want
from pool.jobs.lifecycle import Status
from tests.helpers.builders import ANYTHING, Hand, died_working, new_job, put
from tests.helpers.stores import Place, in_child

LONG_SECONDS = 30.0
FALLBACK_POLL_SECONDS = 1.0
ROUNDS = 20
WAITING = frozenset({Status.PENDING, Status.SCHEDULED})


def _nap(place: Place, want: Want, ready: int) -> float:
    """In a process of its own: wait as a worker does; how long it slept."""
    store = place.open()
    store.wait(want, 0)
    Hand(store).claim(want)
    os.write(ready, b"!")
    begin = time.monotonic()
    store.wait(want, LONG_SECONDS)
    return time.monotonic() - begin


def _nap_until(place: Place, want: Want, act: Callable[[], object]) -> float:
    ready_out, ready_in = os.pipe()
    child = in_child(lambda: _nap(place, want, ready_in))
    os.close(ready_in)
    os.read(ready_out, 1)
    os.close(ready_out)
    act()
    return child.result()


def _enqueue(store: Backend) -> Callable[[], object]:
    return lambda: put(store)


def _enqueue_many(store: Backend) -> Callable[[], object]:
    return lambda: store.enqueue([new_job() for _ in range(10)])


def _recover(store: Backend) -> Callable[[], object]:
    hand = Hand(store)
    put(store)
    hand.take()
    return lambda: store.recover(died_working(hand))


def _retry_at_once(store: Backend) -> Callable[[], object]:
    hand = Hand(store)
    put(store)
    hand.take()
    return hand.retry


def _give_back(store: Backend) -> Callable[[], object]:
    hand = Hand(store)
    put(store)
    hand.take()
    return hand.give_back


def _settle_with_child(store: Backend) -> Callable[[], object]:
    hand = Hand(store)
    put(store)
    hand.take()
    return lambda: hand.settle(children=(new_job(),))


def _settle_with_follower(store: Backend) -> Callable[[], object]:
    hand = Hand(store)
    put(store, on_success=new_job())
    hand.take()
    return hand.complete


def _resume(store: Backend) -> Callable[[], object]:
    put(store)
    store.set_queue("default", paused=True)
    return lambda: store.set_queue("default", paused=False)


def _revive(store: Backend) -> Callable[[], object]:
    hand = Hand(store)
    job_id = put(store)
    hand.take()
    hand.fail()
    return lambda: store.revive(job_id)


def _tick(store: Backend) -> Callable[[], object]:
    return lambda: store.tick("s", "v", time.time(), new_job())


REASONS_TO_WAKE = [
    _enqueue,
    _enqueue_many,
    _recover,
    _retry_at_once,
    _give_back,
    _settle_with_child,
    _settle_with_follower,
    _resume,
    _revive,
    _tick,
]


@pytest.mark.parametrize("prepare", REASONS_TO_WAKE, ids=lambda prepare: prepare.__name__.strip("_"))
def test_a_waiting_worker_is_woken_sooner_than_the_fallback_poll(place: Place, prepare) -> None:
    """Of several naps the shortest counts: a busy machine may delay one, a missing bell delays all."""
    naps = []
    for _ in range(ROUNDS):
        store = place.open()
        naps.append(_nap_until(place, ANYTHING, prepare(store)))
        store.purge("default", statuses=WAITING)
        if min(naps) < FALLBACK_POLL_SECONDS / 2:
            return
    assert min(naps) < FALLBACK_POLL_SECONDS / 2, naps


@pytest.mark.parametrize(
    "want",
    [
        Want(("default",)),
        Want(("other", "default")),
        Want(ANY_QUEUE, min_priority=10, max_priority=10),
        Want(("default",), min_priority=5),
        Want(ANY_QUEUE, reserved=("php",)),
    ],
    ids=str,
)
def test_every_class_of_worker_is_woken(place: Place, want: Want) -> None:
    store = place.open()
    naps = [_nap_until(place, want, _enqueue(store))]
    while min(naps) >= FALLBACK_POLL_SECONDS / 2 and len(naps) < ROUNDS:
        store.purge("default", statuses=WAITING)
        naps.append(_nap_until(place, want, _enqueue(store)))
    assert min(naps) < FALLBACK_POLL_SECONDS / 2, naps


def test_waiting_no_time_returns_at_once(store: Backend) -> None:
    begin = time.monotonic()
    for _ in range(10):
        store.wait(ANYTHING, 0)
    assert time.monotonic() - begin < 10


def test_a_wait_ends_when_its_time_is_over(store: Backend) -> None:
    store.wait(ANYTHING, 0)
    begin = time.monotonic()
    store.wait(ANYTHING, 0.3)
    assert time.monotonic() - begin < LONG_SECONDS


def test_waiting_sleeps_instead_of_spinning(store: Backend) -> None:
    store.wait(ANYTHING, 0)
    Hand(store).claim()
    waits = 0
    begin = time.monotonic()
    while time.monotonic() - begin < 1.0:
        store.wait(ANYTHING, 0.25)
        waits += 1
    assert waits <= 20


def test_a_readable_descriptor_ends_the_wait(store: Backend) -> None:
    out, into = os.pipe()
    os.write(into, b"!")
    begin = time.monotonic()
    store.wait(ANYTHING, LONG_SECONDS, interrupt_fd=out)
    assert time.monotonic() - begin < LONG_SECONDS / 2
    assert os.read(out, 10) == b"!", "the wait must not eat what it was woken with"
    os.close(out)
    os.close(into)


def test_a_descriptor_that_becomes_readable_ends_the_wait(place: Place) -> None:
    ready_out, ready_in = os.pipe()
    out, into = os.pipe()

    def nap() -> float:
        store = place.open()
        store.wait(ANYTHING, 0)
        os.write(ready_in, b"!")
        begin = time.monotonic()
        store.wait(ANYTHING, LONG_SECONDS, interrupt_fd=out)
        return time.monotonic() - begin

    child = in_child(nap)
    os.read(ready_out, 1)
    os.write(into, b"!")
    assert child.result() < LONG_SECONDS / 2
    for fd in (ready_out, ready_in, out, into):
        os.close(fd)


def test_work_that_came_between_claim_and_wait_is_not_slept_through(store: Backend, stores) -> None:
    """The bell was opened before the first claim, so a ring in between is kept."""
    store.wait(ANYTHING, 0)
    hand = Hand(store)
    assert hand.claim() is None
    put(stores())
    begin = time.monotonic()
    store.wait(ANYTHING, LONG_SECONDS)
    assert time.monotonic() - begin < LONG_SECONDS / 2
    assert hand.claim() is not None


def test_every_one_of_many_waiters_finds_its_job(place: Place) -> None:
    """A ring is a flag, not a count: eight jobs rung once still reach eight waiting workers."""
    ready_out, ready_in = os.pipe()

    def serve() -> str:
        store = place.open()
        hand = Hand(store)
        store.wait(ANYTHING, 0)
        os.write(ready_in, b"!")
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            claim = hand.claim()
            if claim is not None:
                hand.complete()
                return claim.job_id
            store.wait(ANYTHING, 5.0)
        return "nothing came"

    children = [in_child(serve) for _ in range(8)]
    for _ in children:
        os.read(ready_out, 1)
    ids = [receipt.job_id for receipt in place.open().enqueue([new_job() for _ in range(8)])]
    assert sorted(child.result() for child in children) == sorted(ids)
    os.close(ready_out)
    os.close(ready_in)
