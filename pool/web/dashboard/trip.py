"""One order of the dashboard on its way: through the dead letters or a queue, at its rate, saying how far it came.

Each job is handled by itself, and one that refuses stops no other. What is repeated after a crash is harmless: a job
that was retried is no dead letter any more, and one that has failed again did so after the order.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import asdict, dataclass
from functools import partial
from typing import TypeVar

from pool.backends.contract import Backend, JobFilter, Page
from pool.clock import monotonic_now
from pool.errors import BackendUnavailable, CallerError
from pool.jobs.fingerprint import fingerprint_of
from pool.jobs.job import Cause, Claim, Job, Outcome, Settlement
from pool.jobs.lifecycle import Reason, Status
from pool.web.dashboard.bulk import order_in
from pool.web.holding import Hold
from pool.web.services import Services

T = TypeVar("T")
SAY_EVERY_S = 1.0
AWAY_WAIT_S = 2.0
CHUNK = 500
PURGE_AT_ONCE = 1000
WAITING = frozenset({Status.PENDING, Status.SCHEDULED})
PURGE_WITHIN_S = 3600.0


@dataclass(slots=True)
class SoFar:
    """What is kept as the checkpoint. `after`: the dead letter that was looked at last."""

    after: str | None = None
    done: int = 0
    refused: int = 0

    @property
    def words(self) -> str:
        return f"{self.done:,} done" + (f", {self.refused:,} refused" if self.refused else "")


class Left(Exception):
    """The order is not carried on here: it was cancelled, the server leaves, or it must not be repeated."""

    def __init__(self, outcome: Outcome, reason: Reason, text: str = "") -> None:
        self.outcome, self.reason, self.text = outcome, reason, text
        super().__init__(text)


class Trip:
    """From its claim to the word for the store."""

    def __init__(self, services: Services, claim: Claim, hold: Hold) -> None:
        self._desk, self._stopping = services.desk, services.stopping
        self._claim, self._held = claim, hold.held(claim.job_id)
        self._said_at = 0.0
        self.so_far = SoFar()

    async def outcome(self) -> Settlement:
        """Do it; ClaimLost when it was given to somebody else meanwhile."""
        try:
            await self._do()
        except Left as left:
            return self._word(left.outcome, left.reason, left.text)
        except (ValueError, TypeError, KeyError) as error:  # written by another version of jobpool
            return self._word(Outcome.FAILED, Reason.INVALID_PAYLOAD, f"the order cannot be read: {error}")
        return self._word(Outcome.COMPLETED)

    def _word(self, outcome: Outcome, reason: Reason | None = None, text: str = "") -> Settlement:
        cause = Cause(reason=reason, text=text or None) if reason else None
        result = json.dumps({"done": self.so_far.done, "refused": self.so_far.refused})
        return Settlement(
            job_id=self._claim.job_id,
            claim=self._claim.claim,
            outcome=outcome,
            reason=reason,
            result=result if outcome is Outcome.COMPLETED else None,
            cause=cause,
            started_at=self._claim.claimed_at,
        )

    # ------------------------------------------------------------------ the work

    async def _do(self) -> None:
        order, is_begun = order_in(self._claim.payload), self._claim.checkpoint is not None
        if is_begun:
            self.so_far = SoFar(**json.loads(self._claim.checkpoint or ""))
        await self._say()
        if order.act == "purge":
            await self._purge(order.what, order.before, is_begun)
        else:
            await self._each(order.what, _revive if order.act == "retry" else _discard, order.before, order.rate)
        await self._say()

    async def _each(self, fingerprint: str, act: Callable[..., Job], before: float, rate: float) -> None:
        async for job in self._dead():
            if fingerprint_of(job) == fingerprint and (job.finished_at or 0.0) <= before:
                await self._act_on(partial(act, job_id=job.id))
                await self._pause(1 / rate if rate else 0.0)
            self.so_far.after = job.id

    async def _act_on(self, step: Callable[[Backend], Job]) -> None:
        try:
            await self._ask(step)
            self.so_far.done += 1
        except CallerError:
            self.so_far.refused += 1

    async def _dead(self) -> AsyncIterator[Job]:
        page = Page((), self.so_far.after)
        while True:
            page = await self._ask(partial(_dead_page, after=page.after))
            for job in page.jobs:
                yield job
            if page.after is None:
                return
            await self._pause(0.0)

    async def _purge(self, queue: str, ordered_at: float, is_begun: bool) -> None:
        """Now or not at all: what has come since the order, or since a process that is gone began, was never meant.

        It is no dead letter then: who retries those must not remove a queue.
        """
        if is_begun or await self._ask(lambda store: store.server_now()) - ordered_at > PURGE_WITHIN_S:
            raise Left(Outcome.CANCELLED, Reason.CANCELLED, "not begun in time, or not ended by the process that began")
        while removed := await self._ask(lambda store: store.purge(queue, statuses=WAITING, limit=PURGE_AT_ONCE)):
            self.so_far.done += removed
            await self._pause(0.0)

    # ------------------------------------------------------------------ between two jobs

    async def _pause(self, seconds: float) -> None:
        """At least so long, and in it a word to the store now and then, which renews the lease and may tell us to end."""
        until = monotonic_now() + seconds
        while True:
            if monotonic_now() - self._said_at >= SAY_EVERY_S:
                await self._say()
            left = until - monotonic_now()
            if self._stopping.is_set():
                await self._say()
                raise Left(Outcome.RETURNED, Reason.INTERRUPTED)
            if left <= 0:
                return
            await self._sleep(min(left, SAY_EVERY_S))

    async def _say(self) -> None:
        note, checkpoint = self.so_far.words, json.dumps(asdict(self.so_far))
        is_cancelled = await self._ask(lambda store: store.report(self._held, note=note, checkpoint=checkpoint))
        self._said_at = monotonic_now()
        if is_cancelled:
            raise Left(Outcome.CANCELLED, Reason.CANCELLED)

    async def _ask(self, step: Callable[[Backend], T]) -> T:
        """Again and again while the store is away; what the caller did wrong is raised."""
        while True:
            try:
                return await self._desk.ask(step)
            except BackendUnavailable:
                if self._stopping.is_set():
                    raise
                await self._sleep(AWAY_WAIT_S)

    async def _sleep(self, seconds: float) -> None:
        """Shorter when the server has been told to stop."""
        try:
            await asyncio.wait_for(self._stopping.wait(), seconds)
        except TimeoutError:
            return


def _dead_page(store: Backend, after: str | None) -> Page:
    return store.jobs(JobFilter(status=Status.FAILED), after=after, limit=CHUNK)


def _revive(store: Backend, job_id: str) -> Job:
    return store.revive(job_id)


def _discard(store: Backend, job_id: str) -> Job:
    return store.discard(job_id)
