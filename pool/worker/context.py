"""What a running job may ask and tell: `pool.current()`."""

import os
import threading
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from pool.backends.contract import Held, Work
from pool.clock import monotonic_now
from pool.errors import BackendUnavailable, ClaimLost, InvalidJob, JobpoolError
from pool.identity import LaneId
from pool.jobs.job import Claim, NewJob
from pool.logs import log
from pool.worker.mailbox import Mailbox
from pool.worker.output import Transcript
from pool.worker.results import ResultNotStorable, json_text
from pool.worker.timeouts import Interrupts

PROGRESS_EVERY_S = 0.2
MAX_NOTE = 500
MAX_CHECKPOINT_BYTES = 1024 * 1024
MAX_CHILDREN = 10_000

MakeJob = Callable[..., NewJob]


class NotInAJob(JobpoolError):
    """`pool.current()` was called where no job runs."""

    def __init__(self) -> None:
        super().__init__("pool.current() works only inside a running job, in the process (and async task) that runs it")


@dataclass(slots=True)
class Place:
    """Where the jobs of a lane run, one after the other: in this process and thread, with these at hand."""

    lane: LaneId
    store: Work
    interrupts: Interrupts
    mailbox: Mailbox
    make_job: MakeJob
    pid: int = field(default_factory=os.getpid)
    thread: int = field(default_factory=threading.get_ident)


class CurrentJob:
    """The job that runs here. Made anew for each attempt; after its end every method raises."""

    __slots__ = ("_children", "_claim", "_deadline", "_is_over", "_next_progress", "_place", "transcript")

    def __init__(self, claim: Claim, place: Place, timeout: float) -> None:
        self._claim, self._place = claim, place
        self._deadline = monotonic_now() + timeout if timeout else None
        self._children: list[NewJob] = []
        self._next_progress = 0.0
        self._is_over = False
        self.transcript = Transcript(claim)

    # ------------------------------------------------------------ what it is

    @property
    def id(self) -> str:
        return self._claim.job_id

    @property
    def type(self) -> str:
        return self._claim.type

    @property
    def queue(self) -> str:
        return self._claim.queue

    @property
    def priority(self) -> int:
        return self._claim.priority

    @property
    def attempt(self) -> int:
        """From 1."""
        return self._claim.attempt

    @property
    def max_retries(self) -> int:
        return self._claim.max_retries

    @property
    def is_last_attempt(self) -> bool:
        """Whether no retry is left."""
        return self._claim.retry_count >= self._claim.max_retries

    @property
    def deadline(self) -> float | None:
        """When the timeout strikes, on CLOCK_MONOTONIC; None without one."""
        return self._deadline

    @property
    def seconds_left(self) -> float | None:
        """Until the timeout strikes; None without one."""
        return None if self._deadline is None else max(0.0, self._deadline - monotonic_now())

    @property
    def stopping(self) -> bool:
        """Whether this worker was told to finish: a long job may checkpoint and return early."""
        return self._place.mailbox.is_stopping

    @property
    def restored(self) -> Any:
        """What the last `checkpoint` of an earlier attempt kept; None when there is none."""
        from pydantic_core import from_json

        return None if self._claim.checkpoint is None else from_json(self._claim.checkpoint)

    # ------------------------------------------------------------ what it tells

    def progress(self, fraction: float, note: str | None = None) -> None:
        """How far the job is, 0 to 1. Kept at most five times a second; raises JobCancelled when someone cancelled it."""
        if not 0 <= fraction <= 1:
            raise InvalidJob(f"progress {fraction!r} is not between 0 and 1")
        now = monotonic_now()
        if now < self._next_progress and fraction < 1:
            return
        self._next_progress = now + PROGRESS_EVERY_S
        self._report(progress=float(fraction), note=None if note is None else self._note(str(note)))

    def checkpoint(self, state: Any) -> None:
        """Keep `state` (JSON) for the next attempt, should this one be interrupted; read it there as `restored`."""
        try:
            text = json_text(state)
        except ResultNotStorable as error:
            raise InvalidJob(f"checkpoint cannot be stored: {error}") from None
        if len(text.encode()) > MAX_CHECKPOINT_BYTES:
            raise InvalidJob(f"checkpoint has more than {MAX_CHECKPOINT_BYTES:,} bytes: store it elsewhere")
        self._report(checkpoint=text)

    def enqueue(self, job: Any, /, *args: Any, **kwargs: Any) -> str:
        """Enqueue another job when this one completes, in the same step; returns its id.

        Checked now (type, payload, queue). If this attempt fails, is cancelled or lost, it is not enqueued.
        """
        self._require_here()
        if len(self._children) >= MAX_CHILDREN:
            raise InvalidJob(f"a job can enqueue at most {MAX_CHILDREN:,} others with its completion")
        child = self._place.make_job(self._claim, job, *args, **kwargs)
        self._children.append(child)
        return child.id

    # ------------------------------------------------------------ for the runner

    def close(self) -> tuple[NewJob, ...]:
        """The attempt is over; what it enqueued."""
        self._is_over = True
        return tuple(self._children)

    def _note(self, text: str) -> str:
        secrets = self.transcript.secrets
        return _storable(text if secrets is None else secrets.mask(text))[:MAX_NOTE]

    def _report(self, **facts: Any) -> None:
        """A store that is away costs the job nothing but this report."""
        self._require_here()
        place, interrupts = self._place, self._place.interrupts
        try:
            cancelled = place.store.report(Held(place.lane, self._claim.job_id, self._claim.claim), **facts)
        except ClaimLost:
            interrupts.raise_lost()
        except BackendUnavailable as error:
            log.limited("report", "the store does not take a job's report", job=self.id, error=str(error))
        else:
            if cancelled:
                interrupts.raise_cancelled()
        interrupts.raise_deferred()

    def _require_here(self) -> None:
        if self._is_over or os.getpid() != self._place.pid:
            raise NotInAJob()
        if threading.get_ident() != self._place.thread:
            raise JobpoolError("call this from the job's own thread; pass results to it from other threads")


in_task: ContextVar[CurrentJob | None] = ContextVar("jobpool_current_job", default=None)


class Sole:
    """The job of a worker that runs one at a time; seen by the threads it starts too."""

    job: CurrentJob | None = None


sole = Sole()


def current() -> CurrentJob:
    """The job that runs here; NotInAJob outside of one."""
    job = in_task.get() or sole.job
    if job is None:
        raise NotInAJob()
    return job


def _storable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")
