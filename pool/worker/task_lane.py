"""A lane of a many-lane worker: the same steps as `Lane`, each job an asyncio task beside the others."""

import asyncio
import random
from typing import Any

from pool.backends.contract import Answer, Want
from pool.clock import boottime_now, wall_now
from pool.errors import BackendUnavailable, InvalidPayload, LaneBarred, RequestRefused, UnknownType
from pool.jobs.job import Claim, Settlement
from pool.jobs.registry import JobType
from pool.logs import log
from pool.worker import endings
from pool.worker.context import CurrentJob, in_task
from pool.worker.desk import FIRST_PAUSE_S, LONGEST_PAUSE_S, GaveUp
from pool.worker.endings import Ending
from pool.worker.hooking import Around
from pool.worker.lane import Lane, Tools
from pool.worker.presence import SharedPresence
from pool.worker.results import to_json
from pool.worker.store_thread import StoreThread
from pool.worker.timeouts import Interrupts


class TaskTimer:
    """Stands in for SIGALRM, which a process has only once."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._handle: asyncio.TimerHandle | None = None
        self.interrupts: Interrupts

    def set(self, seconds: float) -> None:
        if self._handle is not None:
            self._handle.cancel()
        self._handle = self._loop.call_later(seconds, self.interrupts.look) if seconds else None


class TaskLane(Lane):
    """Deals with the store through its thread; waits without holding up the other lanes."""

    def __init__(
        self, tools: Tools, presence: SharedPresence, number: int, store: StoreThread, loop: asyncio.AbstractEventLoop
    ) -> None:
        timer = TaskTimer(loop)
        timer.interrupts = Interrupts(tools.seat.record.lanes[number].order, timer.set)
        super().__init__(tools, number, timer.interrupts, store)
        self._store, self._presence = store, presence
        self.stopped = asyncio.Event()

    # ------------------------------------------------------------ the store

    async def exchange_async(self, want: Want | None) -> Claim | None:
        """As `Lane.exchange`."""
        if self.in_hand is None and want is None:
            return None
        try:
            answer = await self._insist(want)
        except (LaneBarred, GaveUp):
            raise
        except Exception as error:
            self.in_hand = self.instead(error)
            answer = await self._insist(want)
        return self.took(answer)

    async def made_sure_async(self, claim: Claim, want: Want) -> Claim | None:
        """As `Lane.made_sure`."""
        held: Claim | None = claim
        while held is not None and self.is_old(held):
            held = await self.exchange_async(want)
        return held

    async def _insist(self, want: Want | None) -> Answer:
        """One request, repeated until it is answered or we are told to stop."""
        desk = self.desk
        desk.request += 1
        desk.asked_at = boottime_now()
        pause = FIRST_PAUSE_S
        while True:
            try:
                return await self._call(desk.request, want)
            except (BackendUnavailable, RequestRefused) as error:
                if self.tools.mailbox.is_stopping:
                    raise GaveUp from error
                log.limited("desk", "the store does not answer; asking again", lane=str(self.id), error=str(error))
                desk.request += isinstance(error, RequestRefused)
            await self._pause(pause)
            pause = min(2 * pause, LONGEST_PAUSE_S)

    async def _call(self, request: int, want: Want | None) -> Answer:
        settlement = self.in_hand
        self._presence.call_begins()
        try:
            answer: Answer = await asyncio.wrap_future(
                self._store.submit(lambda store: store.exchange(self.id, request, settlement=settlement, want=want))
            )
        finally:
            self._presence.call_ended()
        return answer

    async def _pause(self, seconds: float) -> None:
        """Jittered; the order to stop ends it."""
        try:
            await asyncio.wait_for(self.stopped.wait(), seconds * random.uniform(0.5, 1.0))
        except TimeoutError:
            return

    # ------------------------------------------------------------ the job

    async def carry_out_async(self, claim: Claim) -> None:
        """As `Lane.carry_out`."""
        if self.tools.mailbox.is_stopping:
            self.in_hand = endings.unstarted(claim)
        else:
            self.in_hand = await self._run(claim)

    async def _run(self, claim: Claim) -> Settlement:
        runner = self.runner
        job_type = self.tools.registry.get(claim.type)
        if job_type is None:
            return endings.misfit(claim, UnknownType(claim.type, self.tools.registry.known()))
        if not job_type.is_async:
            return endings.misfit(claim, NotAsync(claim.type))
        timeout = claim.timeout or job_type.timeout
        job = runner.context(claim, job_type, timeout)
        ending = Ending(wall_now())
        if not self.face.started(timeout):
            return endings.unstarted(claim)
        try:
            await self._perform(job_type, claim, job, timeout, ending)
        except InvalidPayload as error:
            return endings.misfit(claim, error)
        finally:
            self.face.finished()
        return runner.settlement(claim, job_type, job, ending)

    async def _perform(self, job_type: JobType, claim: Claim, job: CurrentJob, timeout: float, ending: Ending) -> None:
        token = in_task.set(job)
        try:
            arguments = job_type.arguments(claim.payload)
            with Around(job) as around:
                await self._call_job(job_type, arguments, claim, timeout, ending)
                around.saw(ending.error)
        except InvalidPayload:
            raise
        except BaseException as error:
            ending.error = ending.error or error
        finally:
            ending.children = job.close()
            in_task.reset(token)
            ending.output = job.transcript.close()

    async def _call_job(
        self, job_type: JobType, arguments: dict[str, Any], claim: Claim, timeout: float, ending: Ending
    ) -> None:
        interrupts = self.interrupts
        try:
            task = asyncio.ensure_future(_contained(job_type.function(**arguments)))
            interrupts.cancel_task = task.cancel
            ordered = interrupts.begin(claim, timeout)
            if ordered is not None:
                task.cancel()
                raise ordered
            ending.result = to_json(await task)
        except asyncio.CancelledError as cancelled:
            ending.error = interrupts.why or cancelled
        except BaseException as error:
            ending.error = error
        finally:
            interrupts.end()
            interrupts.cancel_task = None


class NotAsync(UnknownType):
    """A job type that would hold up its neighbours."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.args = (f"job type {name!r} is not async def: serve its queue from a group with concurrency = 1",)


class ProcessEnding(Exception):
    """A job asked for the end of the process, which has other jobs to run."""


async def _contained(coroutine: Any) -> Any:
    """asyncio lets SystemExit and KeyboardInterrupt through its loop, past every other job."""
    try:
        return await coroutine
    except (SystemExit, KeyboardInterrupt) as error:
        raise ProcessEnding(f"{type(error).__name__}: {error}") from error
