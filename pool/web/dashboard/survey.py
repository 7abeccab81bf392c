"""What the whole looks like at one moment, for every page and every watcher: asked of the store at most once a second.

From the first look on, samples of the totals are kept for an hour, so that the overview can draw the last sixty
minutes. What lies before them is known by the minute to the keeper of our own pool, if there is one: so the hour is
whole though this process has just been replaced. The store itself only counts by the hour.
"""

import asyncio
import contextlib
import json
from collections import deque
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pool import config as configuration
from pool.backends.contract import Backend, PoolState, QueueState, Statistics
from pool.clock import monotonic_now, wall_now
from pool.errors import BackendUnavailable
from pool.jobs.job import Job
from pool.paths import SOCKET_NAME
from pool.settings import Config
from pool.web.desk import StoreDesk

FRESH_S = 0.9
SAMPLE_EVERY_S = 5.0
KEPT_S = 3600.0
RECENT_FAILURES = 12
SOCKET_TIMEOUT_S = 1.0

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Sample:
    """The counters at one moment (wall seconds), for the charts of the last hour."""

    at: float
    completed: int
    failed: int
    retried: int
    pending: int
    oldest_s: float


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything that the pages show of the whole. `trouble`: why the store could not be asked; then the rest is old."""

    at: float
    queues: tuple[QueueState, ...] = ()
    statistics: Statistics | None = None
    pools: tuple[PoolState, ...] = ()
    failures: tuple[Job, ...] = ()
    latency_ms: float | None = None
    trouble: str = ""
    status: Document | None = None  # our own pool's /status; None where there is none, or it does not answer
    samples: tuple[Sample, ...] = field(default=(), repr=False)

    def total(self, name: str) -> int:
        """The sum of a count over all queues."""
        return sum(getattr(queue, name) for queue in self.queues)

    @property
    def oldest_s(self) -> float:
        """How long the oldest due job has waited, paused queues apart."""
        return max((queue.oldest_pending_s or 0.0 for queue in self.queues if not queue.paused), default=0.0)


class Survey:
    """One snapshot for all who look, and the memory of an hour."""

    def __init__(self, config: Config, desk: StoreDesk, stopping: asyncio.Event) -> None:
        self._desk, self._stopping = desk, stopping
        self._sampling: asyncio.Task[None] | None = None
        self._socket = Path(configuration.runtime_dir(config)) / SOCKET_NAME
        self._configured = [queue.name for queue in config.queues]
        self._lock = asyncio.Lock()
        self._last = Snapshot(0.0)
        self._fresh_until = 0.0
        self._samples: deque[Sample] = deque()

    async def look(self) -> Snapshot:
        """At most a second old. Never raises for an absent store: `trouble` says so."""
        if self._sampling is None:
            self._sampling = asyncio.create_task(self._sample())
        async with self._lock:
            if monotonic_now() >= self._fresh_until:
                self._last = await self._new()
                self._fresh_until = monotonic_now() + FRESH_S
            return self._last

    def outdate(self) -> None:
        """Something was changed here: the next look asks again."""
        self._fresh_until = 0.0

    async def order(self, verb: str, options: Document) -> tuple[int, Document]:
        """A command for our own pool: its status code and answer; 503 when the pool does not answer."""
        try:
            return await asyncio.wait_for(self._exchange("POST", f"/{verb}", options), 10 * SOCKET_TIMEOUT_S)
        except (OSError, ValueError, TimeoutError, asyncio.IncompleteReadError):
            return 503, {"error": "the pool does not answer on its socket"}

    async def _sample(self) -> None:
        """Until the server stops: look now and then, also while nobody does."""
        while not self._stopping.is_set():
            await self.look()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), SAMPLE_EVERY_S)

    async def _new(self) -> Snapshot:
        status = await self._own_status()
        try:
            facts = await self._desk.ask(lambda store: _ask(store, self._configured))
        except BackendUnavailable as error:
            return replace(self._last, at=wall_now(), latency_ms=None, trouble=str(error), status=status)
        snapshot = Snapshot(wall_now(), **facts, status=status)
        self._remember(snapshot)
        return replace(snapshot, samples=(*_before(self._samples[0].at, status), *self._samples))

    def _remember(self, now: Snapshot) -> None:
        numbers = now.statistics
        if numbers is None or (self._samples and now.at - self._samples[-1].at < SAMPLE_EVERY_S):
            return
        pending, oldest = now.total("pending"), now.oldest_s
        self._samples.append(Sample(now.at, numbers.completed, numbers.failed, numbers.retried, pending, oldest))
        while now.at - self._samples[0].at > KEPT_S:
            self._samples.popleft()

    async def _own_status(self) -> Document | None:
        try:
            answer = await asyncio.wait_for(self._exchange("GET", "/status", None), SOCKET_TIMEOUT_S)
        except (OSError, ValueError, TimeoutError, asyncio.IncompleteReadError):
            return None
        return answer[1] if answer[0] == 200 and "workers" in answer[1] else None

    async def _exchange(self, method: str, path: str, body: Document | None) -> tuple[int, Document]:
        """One request on the pool's own socket."""
        content = b"" if body is None else json.dumps(body).encode()
        reader, writer = await asyncio.open_unix_connection(str(self._socket))
        try:
            head = f"{method} {path} HTTP/1.1\r\nHost: jobpool\r\nConnection: close\r\nContent-Length: {len(content)}\r\n\r\n"
            writer.write(head.encode() + content)
            raw = await reader.read(-1)
        finally:
            writer.close()
        first, _, rest = raw.partition(b"\r\n")
        document = json.loads(rest.partition(b"\r\n\r\n")[2])
        return int(first.split(b" ")[1]), document if isinstance(document, dict) else {}


def _before(moment: float, status: Document | None) -> list[Sample]:
    """What the keeper of our pool has counted until then, of the hour before."""
    rows = (status or {}).get("history") or ()
    return [Sample(*row) for row in rows if moment - KEPT_S <= row[0] < moment]


def _ask(store: Backend, configured: list[str]) -> dict[str, Any]:
    """The fields of a snapshot that the store knows."""
    latency_ms = store.ping() * 1000
    states = {state.name: state for state in store.queues()}
    for name in configured:
        states.setdefault(name, QueueState(name=name))
    return {
        "queues": tuple(states[name] for name in sorted(states)),
        "statistics": store.statistics(),
        "pools": tuple(store.pools()),
        "failures": tuple(store.last_failed(RECENT_FAILURES)),
        "latency_ms": latency_ms,
    }
