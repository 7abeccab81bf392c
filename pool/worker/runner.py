"""One job through its steps: look up, start, read the arguments, call inside the hooks, judge, settle.

Whatever the job does, `run` returns a settlement: the worker lives.
"""

import asyncio
import os
from functools import partial
from typing import TYPE_CHECKING, Any

from pool.backends.contract import Work
from pool.clock import wall_now
from pool.errors import InvalidPayload, JobStopped, UnknownType
from pool.identity import LaneId
from pool.jobs.drafts import child_of
from pool.jobs.hooks import hooks
from pool.jobs.job import Claim, Outcome, Settlement
from pool.jobs.registry import JobType
from pool.logs import log
from pool.worker import endings
from pool.worker.context import CurrentJob, Place, sole
from pool.worker.endings import Ending
from pool.worker.hooking import Around, tell
from pool.worker.presence import LaneFace
from pool.worker.results import to_json
from pool.worker.secrecy import Secrets, masked
from pool.worker.timeouts import Interrupts, enter_user_code

if TYPE_CHECKING:
    from pool.worker.lane import Tools


class Loops:
    """The event loop on which a process runs async functions one at a time; made for the first."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None

    def own(self) -> asyncio.AbstractEventLoop:
        self._loop = self._loop or asyncio.new_event_loop()
        return self._loop


class Runner:
    """Runs the jobs of one lane, one at a time, in this thread. Async functions run on a loop of their own."""

    def __init__(self, lane: LaneId, face: LaneFace, store: Work, tools: "Tools", interrupts: Interrupts) -> None:
        self.place = Place(lane, store, interrupts, tools.mailbox, child_of)
        self._face, self._registry = face, tools.registry
        self._interrupts, self._stage = interrupts, tools.stage
        self._loops = tools.loops

    def run(self, claim: Claim) -> Settlement:
        """The job from its claim to what the store is told of it."""
        job_type = self._registry.get(claim.type)
        if job_type is None:
            return endings.misfit(claim, UnknownType(claim.type, self._registry.known()))
        timeout = claim.timeout or job_type.timeout
        job = self.context(claim, job_type, timeout)
        ending = Ending(wall_now())
        if not self._face.started(timeout):
            return endings.unstarted(claim)
        try:
            self._perform(job_type, claim, job, timeout, ending)
        except InvalidPayload as error:
            return endings.misfit(claim, error)
        finally:
            self._face.finished()
        return self.settlement(claim, job_type, job, ending)

    # ------------------------------------------------------------ the steps

    def context(self, claim: Claim, job_type: JobType, timeout: float) -> CurrentJob:
        job = CurrentJob(claim, self.place, timeout)
        if job_type.redact:
            job.transcript.secrets = Secrets(claim.payload, job_type.redact)
        return job

    def _perform(self, job_type: JobType, claim: Claim, job: CurrentJob, timeout: float, ending: Ending) -> None:
        """Everything that may run the user's code; what it prints and raises lands in `ending`."""
        sole.job, self._stage.sole = job, job.transcript
        try:
            arguments = job_type.arguments(claim.payload)
            if hooks.around:
                with Around(job) as around:
                    self._call(job_type, arguments, claim, timeout, ending)
                    around.saw(ending.error)
            else:
                self._call(job_type, arguments, claim, timeout, ending)
        except InvalidPayload:
            raise
        except BaseException as error:
            ending.error = ending.error or error
        finally:
            ending.children = job.close()
            sole.job = self._stage.sole = None
            ending.output = job.transcript.close()

    def _call(self, job_type: JobType, arguments: dict[str, Any], claim: Claim, timeout: float, ending: Ending) -> None:
        interrupts = self._interrupts
        try:
            ordered = interrupts.begin(claim, timeout)
            if ordered is not None:
                raise ordered
            result = enter_user_code(job_type.function, arguments)
            if job_type.is_async:
                result = self._await(result)
            interrupts.end()
            ending.result = to_json(result)
        except BaseException as error:
            interrupts.end()
            ending.error = error
        finally:
            if os.getpid() != self.place.pid:
                _end_forked_process(ending.error)

    def _await(self, coroutine: Any) -> Any:
        """Run it on this process's loop; an interrupt cancels its task and is raised in its place."""
        loop = self._loops.own()
        task = loop.create_task(coroutine)
        self._interrupts.cancel_task = partial(loop.call_soon_threadsafe, task.cancel)
        try:
            return loop.run_until_complete(task)
        except asyncio.CancelledError:
            if self._interrupts.why is not None:
                raise self._interrupts.why from None
            raise
        finally:
            self._interrupts.cancel_task = None
            _cancel_leftovers(loop)

    def settlement(self, claim: Claim, job_type: JobType, job: CurrentJob, ending: Ending) -> Settlement:
        error = ending.error
        if error is None:
            if log.shows_debug:
                log.debug("job completed", job=claim.job_id, type=claim.type, attempt=claim.attempt)
            return endings.completed(claim, ending)
        settlement = endings.ended_by_error(claim, job_type, ending, error)
        if job.transcript.secrets is not None:
            settlement = masked(settlement, job.transcript.secrets)
        _report(claim, settlement)
        if not isinstance(error, JobStopped) or settlement.outcome in (Outcome.RETRIED, Outcome.FAILED):
            tell(settlement.outcome, job, error)
        ending.error = None  # its frames hold what the job held
        return settlement


def _end_forked_process(error: BaseException | None) -> None:
    """A process that a job forked and that came back into our code is no worker: it ends as a program would."""
    if isinstance(error, SystemExit):
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
    else:
        code = int(error is not None)
    os._exit(code & 0xFF)


def _cancel_leftovers(loop: asyncio.AbstractEventLoop) -> None:
    """A job's tasks end with it."""
    left = asyncio.all_tasks(loop)
    for task in left:
        task.cancel()
    if left:
        loop.run_until_complete(asyncio.wait(left, timeout=1.0))


def _report(claim: Claim, settlement: Settlement) -> None:
    """One line for an attempt that did not complete."""
    cause, expected = settlement.cause, settlement.outcome in (Outcome.CANCELLED, Outcome.RETURNED)
    say = log.info if expected else log.warning
    say(
        f"job {settlement.outcome}",
        job=claim.job_id,
        type=claim.type,
        attempt=claim.attempt,
        reason=cause and cause.reason,
        exception=cause and cause.exception,
        error=cause and cause.text and cause.text[:300],
        retry_in_s=settlement.delay if settlement.outcome is Outcome.RETRIED else None,
    )
