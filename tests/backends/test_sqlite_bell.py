"""Doorbells: one byte wakes one worker, sleeping costs nothing, and no accident to a FIFO costs more than a second."""

import os
import shutil
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pool.backends.contract import Want
from pool.backends.sqlite import bell, bulk, departures
from pool.backends.sqlite.backend import SqliteBackend
from pool.backends.sqlite.transaction import Transaction
from pool.jobs.job import Receipt
from tests.helpers.builders import ANYTHING, Hand, died_working, new_jobs, put
from tests.helpers.coldness import coldness
from tests.helpers.stores import Child, in_child, open_sqlite
from tests.helpers.until import until


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "jobpool.db")


def _bells(path: str) -> list[Path]:
    return sorted(each for each in Path(f"{path}-bells").iterdir() if each.is_fifo())


def test_equal_classes_share_a_bell_and_others_do_not(path: str) -> None:
    one, two = open_sqlite(path), open_sqlite(path)
    one.wait(ANYTHING, 0)
    two.wait(Want(lease_seconds=5.0), 0)
    assert len(_bells(path)) == 1
    two.wait(Want(("mail",)), 0)
    assert len(_bells(path)) == 2


@pytest.mark.parametrize(
    "want, ring, rings",
    [
        (Want(), bell.Ring("any", 10), True),
        (Want(reserved=("php",)), bell.Ring("php", 10), False),
        (Want(("a", "b")), bell.Ring("b", 0), True),
        (Want(("a", "b")), bell.Ring("c", 0), False),
        (Want(min_priority=20), bell.Ring("a", 19), False),
        (Want(max_priority=20), bell.Ring("a", 21), False),
        (Want(min_priority=20, max_priority=20), bell.Ring("a", 20), True),
        (Want(), bell.SCHEDULE_CHANGED, False),
        (bell.KEEPER, bell.SCHEDULE_CHANGED, True),
        (bell.KEEPER, bell.Ring("a", 10), False),
    ],
)
def test_a_ring_concerns_the_classes_that_serve_it(want: Want, ring: bell.Ring, rings: bool) -> None:
    assert bell.concerns(want, ring) is rings


def test_a_ring_without_listeners_is_harmless_and_its_bell_is_swept(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_sqlite(path)
    in_child(lambda: open_sqlite(path).wait(ANYTHING, 0)).result()
    assert len(_bells(path)) == 1
    for _ in range(3):
        put(store)
    store.promote()
    assert len(_bells(path)) == 1, "a class whose workers restart keeps its bell for a while"
    monkeypatch.setattr(bell, "_STALE_S", -1.0)
    listening = open_sqlite(path)
    listening.wait(Want(("mail",)), 0)
    open_sqlite(path).promote()
    assert [each.name for each in _bells(path)] == [bell.class_name(Want(("mail",)))]


def test_a_sooner_scheduled_job_rings_the_keeper(path: str) -> None:
    store = open_sqlite(path)
    ready_out, ready_in = os.pipe()

    def nap() -> float:
        keeper = open_sqlite(path)
        keeper.wait(bell.KEEPER, 0)
        os.write(ready_in, b"!")
        begin = time.monotonic()
        keeper.wait(bell.KEEPER, 30.0)
        return time.monotonic() - begin

    child = in_child(nap)
    os.read(ready_out, 1)
    put(store, delay=500.0)
    assert child.result() < 20.0


def test_a_worker_whose_bell_was_removed_hangs_a_new_one(path: str) -> None:
    store = open_sqlite(path)
    store.wait(ANYTHING, 0)
    shutil.rmtree(f"{path}-bells")
    store.wait(ANYTHING, 2.5)
    assert len(_bells(path)) == 1
    put(open_sqlite(path))
    store.wait(ANYTHING, 30.0)
    assert Hand(store).claim() is not None


def test_a_lost_ring_costs_at_most_the_fallback_poll(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    listener, ringer = open_sqlite(path), open_sqlite(path)
    listener.wait(ANYTHING, 0)
    monkeypatch.setattr(bell.Bells, "ring", lambda self, rings: None)
    put(ringer)
    begin = time.monotonic()
    listener.wait(ANYTHING, 30.0)
    assert time.monotonic() - begin < 15


def test_a_delayed_job_wakes_a_sleeping_worker_when_it_is_due_without_a_keeper(path: str) -> None:
    store = open_sqlite(path)
    put(store, delay=0.4)
    begin = time.monotonic()
    store.wait(ANYTHING, 30.0)
    assert Hand(store).claim() is not None
    assert time.monotonic() - begin < 15


def test_a_full_fifo_stops_nobody(path: str) -> None:
    listener, ringer = open_sqlite(path), open_sqlite(path)
    listener.wait(ANYTHING, 0)
    fd = os.open(_bells(path)[0], os.O_WRONLY | os.O_NONBLOCK)
    try:
        while True:
            os.write(fd, b"!" * 4096)
    except BlockingIOError:
        os.close(fd)
    put(ringer)
    listener.wait(ANYTHING, 30.0)
    assert Hand(listener).claim() is not None


def test_a_wait_survives_a_store_that_is_not_there(tmp_path: Path) -> None:
    store = open_sqlite(f"{tmp_path}/none/jobpool.db")
    begin = time.monotonic()
    store.wait(ANYTHING, 0.2)
    assert 0.1 < time.monotonic() - begin < 20


# ---------------------------------------------------------------- figures


def _sleepers(path: str, count: int) -> tuple[list[Child], int]:
    """Processes that wait as idle workers do, until a job of type `leave`; each reports (wakes, CPU seconds, delays)."""
    ready_out, ready_in = os.pipe()

    def sleep() -> tuple[int, float, list[float]]:
        store = open_sqlite(path)
        hand, wakes, delays = Hand(store), 0, []
        store.wait(ANYTHING, 0)
        answer = hand.exchange(want=ANYTHING)
        os.write(ready_in, b"!")
        cpu = time.process_time()
        while True:
            while answer.claim is None:
                store.wait(ANYTHING, 30.0)
                wakes += 1
                answer = hand.exchange(want=ANYTHING)
            delays.append(time.time() - float(answer.claim.payload))
            if answer.claim.type == "leave":
                hand.settle()
                return wakes, time.process_time() - cpu, delays
            answer = hand.settle(want=ANYTHING)

    children = [in_child(sleep) for _ in range(count)]
    seen = 0
    while seen < count:
        seen += len(os.read(ready_out, count - seen))
    os.close(ready_in)
    os.close(ready_out)
    return children, count


def _send_home(store: SqliteBackend, count: int) -> None:
    store.enqueue(new_jobs(count, type="leave", payload=repr(time.time())))


@pytest.mark.serial
def test_an_idle_worker_starts_a_job_within_milliseconds(path: str) -> None:
    store = open_sqlite(path)
    store.wait(ANYTHING, 0)
    children, count = _sleepers(path, 8)
    for _ in range(100):
        put(store, type="work", payload=repr(time.time()))
        until(lambda: store.queues()[0].pending + store.queues()[0].running == 0)
    _send_home(store, count)
    results = [child.result() for child in children]
    delays = [delay for _, _, each in results for delay in each[:-1]]
    assert len(delays) == 100
    assert statistics.median(delays) < 0.1, f"median {statistics.median(delays) * 1000:.2f} ms"


@pytest.mark.serial
def test_one_job_wakes_about_one_of_eight_workers(path: str) -> None:
    store = open_sqlite(path)
    children, count = _sleepers(path, 8)
    for _ in range(50):
        put(store, type="work", payload=repr(time.time()))
        until(lambda: store.queues()[0].pending + store.queues()[0].running == 0)
    _send_home(store, count)
    wakes = sum(child.result()[0] for child in children)
    assert wakes <= 50 * 2 + 8 * 4, wakes


@pytest.mark.serial
def test_eight_idle_workers_cost_almost_nothing(path: str) -> None:
    store = open_sqlite(path)
    children, count = _sleepers(path, 8)
    begin = time.monotonic()
    until(lambda: time.monotonic() - begin > 5.0)
    _send_home(store, count)
    results = [child.result() for child in children]
    cpu = sum(each[1] for each in results)
    elapsed = time.monotonic() - begin
    assert cpu / elapsed < 0.05 * coldness(), f"{cpu / elapsed:.3%} of a core"


# ---------------------------------------------------------------- rung before the commit


def _enqueue_so(monkeypatch: pytest.MonkeyPatch, then: Callable[[], object]) -> None:
    """Something happens before the commit of each enqueue."""
    enqueue = bulk.enqueue

    def and_then(tx: Transaction, *what: Any) -> list[Receipt]:
        receipts = enqueue(tx, *what)
        then()
        return receipts

    monkeypatch.setattr(bulk, "enqueue", and_then)


@pytest.mark.parametrize("count", [1, 2])
def test_a_worker_is_rung_for_before_the_commit_and_finds_the_job(
    path: str, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    """It is awake by the time the job is there: its claim waits for the write lock, which the producer holds."""
    producer, worker = open_sqlite(path), open_sqlite(path)
    put(producer)
    Hand(worker).take()
    worker.wait(ANYTHING, 0, watched=True)
    rung: list[bool] = []

    _enqueue_so(monkeypatch, lambda: rung.append(worker.wait(ANYTHING, 0, watched=True)))
    producer.enqueue(new_jobs(count))
    assert rung == [True]
    assert Hand(worker).claim() is not None


def test_a_recovered_job_is_rung_for_before_the_commit(path: str) -> None:
    keeper, worker = open_sqlite(path), open_sqlite(path)
    hand = Hand(keeper)
    put(keeper)
    hand.take()
    worker.wait(ANYTHING, 0, watched=True)
    rung: list[bool] = []

    def recover_slowly(tx: Transaction) -> None:
        departures.recover(tx, died_working(hand))
        rung.append(worker.wait(ANYTHING, 0, watched=True))

    keeper._store.write(recover_slowly)
    assert rung == [True]
    assert Hand(worker).claim() is not None


class Refused(Exception):
    """Ends a step."""


def test_a_ring_for_a_job_that_was_then_refused_costs_a_look(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    producer, worker = open_sqlite(path), open_sqlite(path)
    put(producer)
    Hand(worker).take()
    worker.wait(ANYTHING, 0, watched=True)

    def refuse() -> None:
        raise Refused

    _enqueue_so(monkeypatch, refuse)
    with pytest.raises(Refused):
        put(producer)
    assert worker.wait(ANYTHING, 0, watched=True)
    assert Hand(worker).claim() is None
    assert not worker.wait(ANYTHING, 0, watched=True)
