"""Long polls: any number of requests wait, one task asks the store for all of them, ten times a second at most.

A wait ends when its fact is there, when its time is up, or when the server has been told to stop.
"""

import asyncio
from collections import defaultdict
from typing import Any

from pool.backends.contract import Backend, QueueState
from pool.errors import JobNotFound, JobpoolError
from pool.web.desk import StoreDesk

LOOK_EVERY_S = 0.1
SHARE_OF_TIME = 4  # the store is asked at most a fifth of the time


class Watch:
    """A task that looks as long as somebody waits."""

    def __init__(self, desk: StoreDesk, stopping: asyncio.Event) -> None:
        self._desk, self._stopping = desk, stopping
        self._task: asyncio.Task[None] | None = None

    def is_needed(self) -> bool:
        raise NotImplementedError

    async def look(self) -> None:
        raise NotImplementedError

    def end_all(self, error: JobpoolError) -> None:
        raise NotImplementedError

    def begin(self) -> None:
        """Make sure that the task runs."""
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run())

    async def until(self, future: "asyncio.Future[None]", seconds: float) -> bool:
        """Whether the fact came true within this time; False also when the server stops."""
        stop = asyncio.ensure_future(self._stopping.wait())
        both: set[asyncio.Future[Any]] = {future, stop}
        try:
            await asyncio.wait(both, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stop.cancel()
        if future.done():
            future.result()
        return future.done()

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while self.is_needed():
            began = loop.time()
            try:
                await self.look()
            except JobpoolError as error:
                self.end_all(error)
            await asyncio.sleep(max(LOOK_EVERY_S, SHARE_OF_TIME * (loop.time() - began)))


class JobWatch(Watch):
    """Waits for jobs to be over."""

    def __init__(self, desk: StoreDesk, stopping: asyncio.Event) -> None:
        super().__init__(desk, stopping)
        self._waiting: defaultdict[str, set[asyncio.Future[None]]] = defaultdict(set)

    async def wait(self, job_id: str, seconds: float) -> None:
        """Until the job is over or gone, or the time is up."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[job_id].add(future)
        self.begin()
        try:
            await self.until(future, seconds)
        finally:
            self._waiting[job_id].discard(future)
            if not self._waiting[job_id]:
                del self._waiting[job_id]

    def is_needed(self) -> bool:
        return bool(self._waiting)

    async def look(self) -> None:
        ids = list(self._waiting)
        for job_id in await self._desk.ask(lambda store: [each for each in ids if _is_over(store, each)]):
            for future in self._waiting.get(job_id, ()):
                _fulfil(future)

    def end_all(self, error: JobpoolError) -> None:
        for futures in self._waiting.values():
            for future in futures:
                _fulfil(future, error)


class QueueWatch(Watch):
    """Waits for jobs to claim. The first in line is woken first, no more of them than there are jobs."""

    def __init__(self, desk: StoreDesk, stopping: asyncio.Event) -> None:
        super().__init__(desk, stopping)
        self._waiting: dict[asyncio.Future[None], tuple[str, ...]] = {}

    async def wait(self, queues: tuple[str, ...], seconds: float) -> bool:
        """Whether something may be there now."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[future] = queues
        self.begin()
        try:
            return await self.until(future, seconds)
        finally:
            self._waiting.pop(future, None)

    def is_needed(self) -> bool:
        return bool(self._waiting)

    async def look(self) -> None:
        left = {state.name: state.pending for state in await self._desk.ask(_queues) if not state.paused}
        for future, queues in list(self._waiting.items()):
            wanted = left if queues == ("*",) else queues
            found = next((name for name in wanted if left.get(name, 0) > 0), None)
            if found is not None and not future.done():
                left[found] -= 1
                _fulfil(future)

    def end_all(self, error: JobpoolError) -> None:
        for future in self._waiting:
            _fulfil(future, error)


def _queues(store: Backend) -> list[QueueState]:
    return store.queues()


def _is_over(store: Backend, job_id: str) -> bool:
    try:
        return not store.job(job_id).status.is_live
    except JobNotFound:
        return True


def _fulfil(future: "asyncio.Future[None]", error: JobpoolError | None = None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(None)
    else:
        future.set_exception(error)
