"""The way from the event loop to the store: a few threads, each with a backend of its own.

More callers than threads stand in line, at most two seconds; then they are told that the store is not available, as
they are when it does not answer. Nothing here retries: the client does, with the same idempotency key.
"""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from pool.backends.contract import Backend
from pool.client import Line
from pool.errors import BackendUnavailable

T = TypeVar("T")
THREADS = 8
LONGEST_QUEUE_S = 2.0
LONGEST_CALL_S = 20.0  # a batch of 10,000 on a slow disk; an absent store is told apart by the backend, within 2 s


class StoreDesk:
    """Runs steps on the store in threads. `ask` may be awaited by any number of tasks."""

    def __init__(self, open_store: Callable[[], Backend], threads: int = THREADS) -> None:
        self._open = open_store
        self._own = threading.local()
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="store")
        self._places = asyncio.Semaphore(threads)

    async def ask(self, step: Callable[[Backend], T]) -> T:
        """The result of `step(backend)`; BackendUnavailable after two seconds in line."""
        try:
            await asyncio.wait_for(self._places.acquire(), LONGEST_QUEUE_S)
        except TimeoutError:
            raise BackendUnavailable("store", "all connections to it are busy") from None
        future = asyncio.get_running_loop().run_in_executor(self._threads, self._run, step)
        future.add_done_callback(self._leave)  # also when the caller has left: the thread is busy until then
        done, _ = await asyncio.wait({future}, timeout=LONGEST_CALL_S)
        if not done:
            raise BackendUnavailable(
                "store", f"no answer within {LONGEST_CALL_S:.0f} s; the call may still take effect"
            )
        return future.result()

    def close(self) -> None:
        """Let the threads end when what they do is done; each closes its backend then."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _leave(self, future: "asyncio.Future[T]") -> None:
        self._places.release()
        if not future.cancelled():
            future.exception()  # looked at, so that nobody complains when the caller has left

    def _run(self, step: Callable[[Backend], T]) -> T:
        line: Line | None = getattr(self._own, "line", None)
        if line is None:
            line = self._own.line = Line(self._open())
        return step(line.backend)
