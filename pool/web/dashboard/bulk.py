"""Work on many jobs that a person began on a page: goes on in the background, at a rate, shown while it lasts.

It lives in the web process only: when that is replaced the work stops where it is, and can be begun again; each job is
handled by itself, and one that refuses does not stop the others.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Any, TypeVar

from pool.backends.contract import Backend, JobFilter, Page
from pool.clock import wall_now
from pool.errors import BackendUnavailable, CallerError
from pool.jobs.fingerprint import fingerprint_of
from pool.jobs.job import Job
from pool.jobs.lifecycle import Status
from pool.logs import log
from pool.web.dashboard.listing import CHUNK
from pool.web.desk import StoreDesk

T = TypeVar("T")
SHOWN = 5
AWAY_WAIT_S = 2.0
PURGE_AT_ONCE = 1000
WAITING = frozenset({Status.PENDING, Status.SCHEDULED})


@dataclass(slots=True)
class Work:
    """One piece of it. `rate`: jobs a second, 0 = as fast as it goes."""

    number: int
    title: str
    who: str
    rate: float
    began: float = field(default_factory=wall_now)
    done: int = 0
    refused: int = 0
    state: str = "running"  # running, finished, stopped
    stop: asyncio.Event = field(default_factory=asyncio.Event)


class BulkWork:
    """Begins, shows and stops work."""

    def __init__(self, desk: StoreDesk, stopping: asyncio.Event) -> None:
        self._desk, self._stopping = desk, stopping
        self._numbers = count(1)
        self._all: list[Work] = []
        self._tasks: set[asyncio.Task[None]] = set()

    def recent(self) -> list[Work]:
        """The newest, the running ones first."""
        return sorted(self._all[-SHOWN:], key=lambda work: (work.state != "running", -work.number))

    def each_dead(self, key: str, act: str, title: str, who: str, rate: float) -> Work:
        """Retry or discard every dead letter of a fingerprint that failed before now."""
        work = self._new(title, who, rate)
        step = _revive if act == "retry" else _discard
        self._begin(work, self._each(work, key, step))
        return work

    def purge(self, queue: str, who: str) -> Work:
        """Remove what waits in a queue."""
        work = self._new(f"Remove what waits in {queue}", who, 0)
        self._begin(work, self._purge(work, queue))
        return work

    def stop(self, number: int) -> None:
        for work in self._all:
            if work.number == number:
                work.stop.set()

    # ------------------------------------------------------------------ the work

    async def _each(self, work: Work, key: str, act: Callable[..., Job]) -> None:
        async for job in self._dead(work):
            if (job.finished_at or 0) > work.began or fingerprint_of(job) != key:
                continue
            if self._must_stop(work):
                return
            try:
                await self._ask(work, partial(act, job_id=job.id))
                work.done += 1
            except CallerError:
                work.refused += 1
            if work.rate:
                await self._pause(work, 1 / work.rate)

    async def _dead(self, work: Work) -> AsyncIterator[Job]:
        after: str | None = None
        while not self._must_stop(work):
            page = await self._ask(work, partial(_dead_page, after=after))
            for job in page.jobs:
                yield job
            after = page.after
            if after is None:
                return

    async def _purge(self, work: Work, queue: str) -> None:
        while not self._must_stop(work):
            removed = await self._ask(work, lambda store: store.purge(queue, statuses=WAITING, limit=PURGE_AT_ONCE))
            work.done += removed
            if not removed:
                return

    async def _ask(self, work: Work, step: Callable[[Backend], T]) -> T:
        """Again and again while the store is away; what the caller did wrong is raised."""
        while True:
            try:
                return await self._desk.ask(step)
            except BackendUnavailable:
                if self._must_stop(work):
                    raise
                await self._pause(work, AWAY_WAIT_S)

    # ------------------------------------------------------------------ its life

    def _new(self, title: str, who: str, rate: float) -> Work:
        work = Work(next(self._numbers), title, who, rate)
        self._all = [*self._all[-50:], work]
        log.info("work begun on the dashboard", what=title, by=who)
        return work

    def _begin(self, work: Work, coroutine: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(self._finish(work, coroutine))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _finish(self, work: Work, coroutine: Coroutine[Any, Any, None]) -> None:
        try:
            await coroutine
        except BackendUnavailable as error:
            log.warning("work of the dashboard stopped", what=work.title, error=str(error))
        work.state = "stopped" if self._must_stop(work) else "finished"
        log.info("work of the dashboard ended", what=work.title, done=work.done, refused=work.refused)

    def _must_stop(self, work: Work) -> bool:
        return work.stop.is_set() or self._stopping.is_set()

    async def _pause(self, work: Work, seconds: float) -> None:
        try:
            await asyncio.wait_for(work.stop.wait(), seconds)
        except TimeoutError:
            return


def _dead_page(store: Backend, after: str | None) -> Page:
    return store.jobs(JobFilter(status=Status.FAILED), after=after, limit=CHUNK)


def _revive(store: Backend, job_id: str) -> Job:
    return store.revive(job_id)


def _discard(store: Backend, job_id: str) -> Job:
    return store.discard(job_id)
