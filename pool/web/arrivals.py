"""Single jobs that arrive at the same time enter the store together: one transaction, one sync to disk for all of them.

Whoever comes first waits for nobody: what arrives while the store is busy makes up the next group. If a group is
refused (one queue is full), its jobs enter one by one, so that each is answered for itself.
"""

import asyncio
from dataclasses import dataclass

from pool.backends.contract import Backend
from pool.errors import CallerError, JobNotFound, JobpoolError, OutcomeUnknown
from pool.jobs.job import Job, NewJob, Receipt
from pool.web.desk import StoreDesk

LARGEST_GROUP = 64
GROUPS_AT_ONCE = 2

Stored = tuple[Receipt, Job | None]


@dataclass(slots=True)
class Arrival:
    """A job at the door, and where its answer goes."""

    job: NewJob
    answer: "asyncio.Future[Stored]"


class Arrivals:
    """The door for single jobs."""

    def __init__(self, desk: StoreDesk) -> None:
        self._desk = desk
        self._waiting: list[Arrival] = []
        self._porters: set[asyncio.Task[None]] = set()

    async def enqueue(self, job: NewJob) -> Stored:
        """The receipt, and the job as stored (None: its record is over, but its key is kept)."""
        arrival = Arrival(job, asyncio.get_running_loop().create_future())
        self._waiting.append(arrival)
        if len(self._porters) < GROUPS_AT_ONCE:
            porter = asyncio.create_task(self._carry())
            self._porters.add(porter)
            porter.add_done_callback(self._porters.discard)
        return await arrival.answer

    async def _carry(self) -> None:
        while self._waiting:
            group, self._waiting = self._waiting[:LARGEST_GROUP], self._waiting[LARGEST_GROUP:]
            jobs = [arrival.job for arrival in group]
            try:
                answers = await self._desk.ask(lambda store, jobs=jobs: store_group(store, jobs))  # type: ignore[misc]
            except JobpoolError as error:
                answers = [error] * len(group)
            for arrival, answer in zip(group, answers, strict=True):
                _answer(arrival, answer)


def store_group(store: Backend, jobs: list[NewJob]) -> list[Stored | JobpoolError]:
    """Store them in one step; one by one if that is refused."""
    try:
        return [_looked_up(store, receipt) for receipt in enqueue_surely(store, jobs)]
    except CallerError as error:
        return [error] if len(jobs) == 1 else [store_group(store, [job])[0] for job in jobs]


def enqueue_surely(store: Backend, jobs: list[NewJob], refuse_above: int | None = None) -> list[Receipt]:
    """An answer that was lost is asked for again: the same ids are never stored twice."""
    try:
        return store.enqueue(jobs, refuse_above=refuse_above)
    except OutcomeUnknown:
        return store.enqueue(jobs, refuse_above=refuse_above)


def _looked_up(store: Backend, receipt: Receipt) -> Stored:
    try:
        return receipt, store.job(receipt.job_id)
    except JobNotFound:
        return receipt, None


def _answer(arrival: Arrival, answer: Stored | JobpoolError) -> None:
    if arrival.answer.done():
        return  # the client has left
    if isinstance(answer, JobpoolError):
        arrival.answer.set_exception(answer)
    else:
        arrival.answer.set_result(answer)
