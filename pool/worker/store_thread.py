"""The one thread of a many-lane worker that talks to the store, so that jobs go on while the store is slow or away.

It takes calls in order; with none to make it sleeps on the bell, and a call wakes it from there.
"""

import contextlib
import os
import queue
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

from pool.backends.contract import Answer, Backend, Held, Want
from pool.descriptors import readable
from pool.identity import LaneId
from pool.jobs.job import Settlement

BELL_SLICE_S = 4.5  # then it is looked again whether a keeper lives
SLICE_S = 60.0  # a call wakes the thread; what it owes to nobody it need not wake for

Call = Callable[[Backend], Any]


class StoreThread:
    """`submit` may be called from any thread; `on_rung` is called in this one when a job may be there. `is_watched`:
    whether somebody else looks for lost rings."""

    def __init__(
        self,
        open_backend: Callable[[], Backend],
        want: Want,
        on_rung: Callable[[], None],
        is_watched: Callable[[], bool],
    ) -> None:
        self._open_backend, self._want, self._on_rung, self._is_watched = open_backend, want, on_rung, is_watched
        self._calls: queue.SimpleQueue[tuple[Call, Future[Any]] | None] = queue.SimpleQueue()
        self._wake_read, self._wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self.is_listening = False
        self._thread = threading.Thread(target=self._run, name="store", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """After the calls made so far; the backend is closed."""
        self._calls.put(None)
        self.nudge()
        self._thread.join(timeout=10.0)

    def submit(self, call: Call) -> "Future[Any]":
        future: Future[Any] = Future()
        self._calls.put((call, future))
        self.nudge()
        return future

    def nudge(self) -> None:
        """Wake the thread from the bell: there is a call, or `is_listening` has changed."""
        with contextlib.suppress(BlockingIOError):
            os.write(self._wake_write, b"!")

    def reconnect(self, keep_alive: Callable[[object], None]) -> None:
        """A job closed our descriptors: a new pipe and a new backend, without touching the old ones."""
        self._wake_read, self._wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

        def swap(old: Backend) -> None:
            keep_alive(old)
            self._backend = self._open_backend()

        self.submit(swap)

    # ------------------------------------------------------------ for jobs: the part of `Work` they use

    def report(
        self, held: Held, *, progress: float | None = None, note: str | None = None, checkpoint: str | None = None
    ) -> bool:
        """The job's lane waits for the answer, and with it the others of this process: a moment."""
        return bool(
            self.submit(lambda store: store.report(held, progress=progress, note=note, checkpoint=checkpoint)).result()
        )

    def exchange(
        self, lane: LaneId, request: int, *, settlement: Settlement | None = None, want: Want | None = None
    ) -> Answer:
        answer: Answer = self.submit(
            lambda store: store.exchange(lane, request, settlement=settlement, want=want)
        ).result()
        return answer

    def exchange_many(
        self,
        lanes: Sequence[LaneId],
        request: int,
        *,
        settlements: Sequence[Settlement | None],
        want: Want | None = None,
        ahead: int = 0,
        leave: int = 0,
    ) -> list[Answer]:
        """Its lanes run at the same time, so each calls for itself; here for completeness."""

        def call(store: Backend) -> list[Answer]:
            return store.exchange_many(lanes, request, settlements=settlements, want=want, ahead=ahead, leave=leave)

        answers: list[Answer] = self.submit(call).result()
        return answers

    def wait(self, want: Want, seconds: float, interrupt_fd: int | None = None, *, watched: bool = False) -> bool:
        """The thread listens by itself."""
        return False

    # ------------------------------------------------------------ in the thread

    def _run(self) -> None:
        self._backend = self._open_backend()
        self._backend.wait(self._want, 0.0, self._wake_read)
        while (item := self._next()) is not None:
            call, future = item
            try:
                future.set_result(call(self._backend))
            except BaseException as error:
                future.set_exception(error)
        self._backend.close()

    def _next(self) -> tuple[Call, "Future[Any]"] | None:
        while True:
            try:
                return self._calls.get_nowait()
            except queue.Empty:
                self._listen()

    def _listen(self) -> None:
        if self.is_listening:
            if self._backend.wait(self._want, BELL_SLICE_S, self._wake_read, watched=self._is_watched()):
                self._on_rung()
        else:
            readable([self._wake_read], SLICE_S)
        with contextlib.suppress(BlockingIOError):
            os.read(self._wake_read, 4096)
