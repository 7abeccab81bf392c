"""Thousands of idle workers without their processes: each is a store connection of the product that asks what a worker asks.

A worker that waits sleeps in BLPOP on the bell of its class, in slices of 4.8 s; when that rings it claims, settles and
claims again until nothing is left. Its lane, its class and its commands are made by the backend itself.
"""

import contextlib
import heapq
import os
import select
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from pool.backends.contract import Beat
from pool.backends.redis.backend import RedisBackend
from pool.backends.redis.connection import Connection, pack
from pool.backends.redis.keys import class_of
from pool.identity import LaneId, PoolId, WorkerId, process_mark
from pool.worker.process import BELL_SLICE_S
from tests.helpers.builders import ANYTHING, Hand
from tests.helpers.stores import Child, in_child

LONGEST_S = 400
PROCESSES = 2
BEAT_S, PROMOTE_S, WATCH_S, POST_S = 10.0, 1.0, 5.0, 5.0  # of a keeper with nothing to do (pool/keeper/loop.py)


class Idler:
    """One worker that has never had anything to do."""

    def __init__(self, url: str, worker: WorkerId) -> None:
        self._store = RedisBackend(url)
        self._hand = Hand(self._store, LaneId(worker))
        self._nap = pack("BLPOP", self._store._keys.bell(class_of(ANYTHING)), f"{BELL_SLICE_S:.3f}")
        self._store.wait(ANYTHING, 0.0)
        self._hand.claim()
        self.connection: Connection = self._store._session.connection()
        self.connection.send(self._nap)

    def hear(self) -> list[float]:
        """The slice is over or the bell has rung: how long each job had waited that was found, in seconds."""
        waits = []
        if self.connection.read() is not None:
            claim = self._hand.claim()
            while claim is not None:
                waits.append(time.monotonic() - float(claim.payload))
                claim = self._hand.settle(started_at=1.0, want=ANYTHING).claim
        self.connection.send(self._nap)
        return waits


@dataclass
class Crowd:
    """The idlers of all processes, while they run."""

    children: list[Child]
    stop_fd: int
    waits: list[float] = field(default_factory=list)

    def end(self) -> list[float]:
        """Send them home; what they waited for all their jobs."""
        os.write(self.stop_fd, b"x" * len(self.children))
        self.waits = [wait for child in self.children for wait in child.result()]
        return self.waits


@contextlib.contextmanager
def crowd(url: str, pools: Sequence[PoolId], workers: int) -> Iterator[Crowd]:
    """So many workers of each pool, all asleep when this begins."""
    ready_out, ready_in = os.pipe()
    stop_out, stop_in = os.pipe()
    parts = [list(pools[number::PROCESSES]) for number in range(PROCESSES)]
    children = [in_child(partial(_live, url, part, workers, ready_in, stop_out)) for part in parts]
    try:
        for _ in children:
            assert _wait_for_byte(ready_out), "the idle workers did not all come"
        yield Crowd(children, stop_in)
    finally:
        for child in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child.pid, signal.SIGKILL)
        for fd in (ready_out, ready_in, stop_out, stop_in):
            os.close(fd)


def _live(url: str, pools: list[PoolId], workers: int, ready_in: int, stop_out: int) -> list[float]:
    signal.alarm(LONGEST_S)
    idlers: dict[int, Idler] = {}
    for pool in pools:
        for slot in range(workers):
            idler = Idler(url, WorkerId(pool, slot, 1))
            idlers[idler.connection.fileno()] = idler
    epoll = select.epoll()
    for fd in (*idlers, stop_out):
        epoll.register(fd, select.EPOLLIN)
    os.write(ready_in, b"r")
    waits: list[float] = []
    while True:
        for fd, _ in epoll.poll():
            if fd == stop_out:
                os.read(stop_out, 1)
                return waits
            waits += idlers[fd].hear()


def _wait_for_byte(fd: int) -> bool:
    return bool(select.select([fd], [], [], LONGEST_S)[0]) and bool(os.read(fd, 1))


# ---------------------------------------------------------------- keepers


@contextlib.contextmanager
def keepers(url: str, pools: Sequence[PoolId]) -> Iterator[None]:
    """What the keepers of idle pools ask of the store, at their pace, from one process."""
    stop_out, stop_in = os.pipe()
    child = in_child(partial(_keep, url, list(pools), stop_out))
    try:
        yield
        os.write(stop_in, b"x")
        child.result()
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child.pid, signal.SIGKILL)
        os.close(stop_out)
        os.close(stop_in)


def _keep(url: str, pools: list[PoolId], stop_out: int) -> None:
    signal.alarm(LONGEST_S)
    queue = [duty for number, pool in enumerate(pools) for duty in _duties(url, pool, number / len(pools))]
    heapq.heapify(queue)
    while True:
        duty = heapq.heappop(queue)
        if select.select([stop_out], [], [], max(0.0, duty.due - time.monotonic()))[0]:
            return
        duty.act()
        heapq.heappush(queue, duty._replace(due=time.monotonic() + duty.period))


class _Duty(NamedTuple):
    due: float
    number: float  # no two alike: acts cannot be compared
    period: float
    act: Callable[[], object]


def _duties(url: str, pool: PoolId, phase: float) -> Iterator[_Duty]:
    """Of one keeper; `phase` from 0 to 1 spreads the keepers over each period."""
    store = RedisBackend(url)
    beat = Beat(pool=pool, supervisor=process_mark(), held=(), lease_seconds=60.0, facts="{}")
    acts = (
        (BEAT_S, partial(store.beat, beat)),
        (PROMOTE_S, store.promote),
        (WATCH_S, store.recover_expired),
        (POST_S, lambda: (store.ping(), store.queues(), store.statistics())),
    )
    for number, (period, act) in enumerate(acts):
        yield _Duty(time.monotonic() + period * phase, number + phase, period, act)
