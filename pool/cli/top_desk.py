"""Where `top` gets its facts and hands in its orders: one thread that may wait for a slow pool or store.

The screen never waits: it reads the latest `View` and is woken through a pipe. A backend belongs to one thread, so
everything that touches the store happens here.
"""

import contextlib
import os
import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from pool.backends.contract import Backend
from pool.cli import control
from pool.cli.audit import note
from pool.clock import monotonic_now
from pool.errors import JobpoolError
from pool.jobs.job import Job

LOOK_EVERY_S = 1.0
FAILURES_EVERY_S = 3.0
FAILURES_KEPT = 50
ASK_TIMEOUT_S = 5.0
RATE_OVER_S = 10.0

Document = dict[str, Any]
Order = Callable[["Desk"], str]
Failures = tuple[tuple[Job, ...], str]


@dataclass(frozen=True, slots=True)
class View:
    """What is known at one moment. `trouble` says why `status` is old; `no_failures` why there are none to show."""

    status: Document = field(default_factory=dict)
    failures: tuple[Job, ...] = ()
    no_failures: str = ""
    trouble: str = ""
    done_per_second: float | None = None
    said: str = ""


class Desk:
    """Looks each second and obeys orders in between. `open_store` may raise; then failures are not shown."""

    def __init__(self, socket: str, open_store: Callable[[], Backend]) -> None:
        self.view = View()
        self.wake_fd, self._wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._socket, self._open_store = socket, open_store
        self._store: Backend | None = None
        self._orders: queue.Queue[Order | None] = queue.Queue()
        self._look_at = self._failures_at = 0.0
        self._counts: list[tuple[float, int]] = []
        self._thread = threading.Thread(target=self._run, name="top", daemon=True)

    def look_once(self) -> View:
        """In this thread, for the first picture; PoolUnreachable when there is no pool."""
        self._see(self._ask("GET", "/status")[1])
        self.view = replace(self.view, **self._failures())
        self._failures_at = monotonic_now() + FAILURES_EVERY_S
        return self.view

    def start(self) -> None:
        """From now on the store is the thread's."""
        self._close_store()
        self._thread.start()

    def order(self, order: Order) -> None:
        """Do this soon; what it returns is shown."""
        self._orders.put(order)

    def close(self) -> None:
        self._orders.put(None)
        self._thread.join(ASK_TIMEOUT_S)
        os.close(self.wake_fd)
        os.close(self._wake_write)

    # ------------------------------------------------------------------ orders

    def scale(self, group: str, count: int) -> str:
        code, answer = self._ask("POST", "/scale", {"group": group, "count": count})
        return f"{group}: {count} workers" if code < 300 else str(answer.get("error", answer))

    def pause_or_resume(self, name: str) -> str:
        """By what the store says now: the picture may be a second old."""
        is_paused = any(queue.paused for queue in self.store().queues() if queue.name == name)
        note(self.store(), "resume" if is_paused else "pause", {"queue": name})
        self.store().set_queue(name, paused=not is_paused)
        return f"queue {name} is {'resumed' if is_paused else 'paused'}"

    def retry(self, job_id: str) -> str:
        note(self.store(), "jobs retry", {"jobs": [job_id]})
        self.store().revive(job_id)
        self._failures_at = 0.0
        return f"retried job {job_id}"

    def store(self) -> Backend:
        """The pool's store, opened at the first need."""
        if self._store is None:
            self._store = self._open_store()
        return self._store

    # ------------------------------------------------------------------ the thread

    def _run(self) -> None:
        while True:
            with contextlib.suppress(queue.Empty):
                order = self._orders.get(timeout=max(0.0, self._look_at - monotonic_now()))
                if order is None:
                    return self._close_store()
                self._obey(order)
            self._look()
            with contextlib.suppress(BlockingIOError, OSError):
                os.write(self._wake_write, b"t")

    def _obey(self, order: Order) -> None:
        try:
            said = order(self)
        except JobpoolError as error:
            said = str(error)
        self.view = replace(self.view, said=said)

    def _look(self) -> None:
        now = monotonic_now()
        self._look_at = now + LOOK_EVERY_S
        try:
            self._see(self._ask("GET", "/status")[1])
        except control.PoolUnreachable as error:
            self.view = replace(self.view, trouble=str(error))
        if now >= self._failures_at:
            self.view = replace(self.view, **self._failures())
            self._failures_at = monotonic_now() + FAILURES_EVERY_S

    def _see(self, status: Document) -> None:
        done = (status.get("totals") or {}).get("completed")
        rate = self._rate(int(done)) if done is not None else None
        self.view = replace(self.view, status=status, trouble="", done_per_second=rate)

    def _rate(self, done: int) -> float | None:
        """Completed jobs a second, over the last seconds."""
        now = monotonic_now()
        self._counts = [(at, count) for at, count in self._counts if now - at <= RATE_OVER_S] + [(now, done)]
        (first_at, first), (last_at, last) = self._counts[0], self._counts[-1]
        return (last - first) / (last_at - first_at) if last_at - first_at > LOOK_EVERY_S / 2 else None

    def _failures(self) -> dict[str, Any]:
        """The newest dead letters, the last to fail first."""
        try:
            jobs = self.store().last_failed(FAILURES_KEPT)
        except JobpoolError as error:
            return {"failures": (), "no_failures": str(error)}
        return {"failures": tuple(jobs), "no_failures": ""}

    def _ask(self, method: str, path: str, body: Document | None = None) -> tuple[int, Any]:
        return control.ask(self._socket, method, path, body, ASK_TIMEOUT_S)

    def _close_store(self) -> None:
        if self._store is not None:
            self._store.close()
            self._store = None
