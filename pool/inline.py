"""Running a job in this process, as `pool.testing` does: the same payloads, policies and results as in a worker."""

import asyncio
import contextvars
import inspect
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from pool.clock import boottime_now, wall_now
from pool.errors import GiveUp, InvalidPayload, JobStopped, UnknownType
from pool.identity import LaneId, PoolId, WorkerId
from pool.jobs.documents import as_value
from pool.jobs.drafts import child_of
from pool.jobs.job import Claim, Job, NewBatch, NewJob
from pool.jobs.lifecycle import Reason, Status
from pool.jobs.policy import Retry
from pool.jobs.registry import JobType, registry

if TYPE_CHECKING:
    from pool.backends.contract import BatchState
    from pool.worker.context import CurrentJob

LANE = LaneId(WorkerId(PoolId("inline", "localhost", "test"), 0, 1))


@dataclass(slots=True)
class Record:
    """An enqueued job and what became of it. `waits` are the seconds its retries would have waited."""

    new: NewJob
    created_at: float
    status: Status
    result: Any = None
    error: BaseException | None = None
    reason: Reason | None = None
    retry_count: int = 0
    waits: list[float] = field(default_factory=list)
    errors: list[BaseException] = field(default_factory=list)
    result_text: str | None = None
    progress: float | None = None
    progress_note: str | None = None
    checkpoint: str | None = None

    @property
    def type(self) -> str:
        return self.new.type

    @property
    def queue(self) -> str:
        return self.new.queue

    @property
    def arguments(self) -> dict[str, Any]:
        """As the function gets them; plain JSON values for a type that is not known here."""
        job_type = registry.get(self.new.type)
        return job_type.arguments(self.new.payload) if job_type else as_value(self.new.payload)

    def answers_for(self, other: NewJob) -> bool:
        """Whether a store would answer with this job instead of storing the other."""
        mine = self.new
        same_key = mine.idempotency_key is not None and mine.idempotency_key == other.idempotency_key
        same_unique = mine.unique_key is not None and mine.unique_key == other.unique_key and self.status.is_live
        return mine.id == other.id or (same_key and mine.owner == other.owner) or same_unique

    def as_job(self) -> Job:
        """As `client.get` returns it."""
        new, now = self.new, wall_now()
        ended = None if self.status.is_live else now
        return Job(
            id=new.id, type=new.type, queue=new.queue, payload=new.payload, priority=new.priority, status=self.status,
            retry_count=self.retry_count, max_retries=new.max_retries, kill_count=0, max_kills=new.max_kills,
            timeout=new.timeout, owner=new.owner, idempotency_key=new.idempotency_key, unique_key=new.unique_key,
            parent_id=new.parent_id, run_at=new.run_at or self.created_at + new.delay, expires_at=None,
            created_at=self.created_at, updated_at=now, claimed_at=None, started_at=ended, finished_at=ended,
            worker_id=None, claim=self.retry_count + 1, cancel_requested=False, reason=self.reason,
            error=None if self.error is None else str(self.error),
            exception=None if self.error is None else type(self.error).__qualname__,
            result=self.result_text, progress=self.progress, progress_note=self.progress_note,
            limit_key=new.limit_key, batch_id=new.batch_id,
        )  # fmt: skip

    def __str__(self) -> str:
        return f"{self.new.type} {self.new.payload}"


@dataclass(slots=True)
class InlineBatch:
    """A batch whose members run here. `is_whole` once all of them are enqueued."""

    new: NewBatch
    is_whole: bool = False
    is_over_told: bool = False
    is_success_told: bool = False

    def due(self, state: "BatchState") -> list[NewJob]:
        """The callbacks whose time has come with this state, each given once."""
        found: list[NewJob | None] = []
        if self.is_whole and state.is_over and not self.is_over_told:
            self.is_over_told = True
            found.append(self.new.on_complete)
        if self.is_whole and state.completed == state.total and not self.is_success_told:
            self.is_success_told = True
            found.append(self.new.on_success)
        return [job for job in found if job is not None]


def new_record(new: NewJob, now: float) -> Record:
    """The record of a job that was just enqueued: scheduled if it is due later, else pending."""
    is_later = new.delay > 0 or (new.run_at is not None and new.run_at > now)
    return Record(new, now, Status.SCHEDULED if is_later else Status.PENDING)


def run(record: Record) -> tuple[NewJob, ...]:
    """Run the job to its end, retries included, without their waits; returns what it enqueues with its completion."""
    job_type = registry.get(record.type)
    if job_type is None:
        return _fail(record, UnknownType(record.type, registry.known()), Reason.UNKNOWN_TYPE)
    while True:
        record.status = Status.RUNNING
        try:
            children = _in_place(job_type, lambda: _attempt(record, job_type))
        except InvalidPayload as error:
            return _fail(record, error, Reason.INVALID_PAYLOAD)
        except (Exception, JobStopped) as error:
            record.errors.append(error)
            verdict = job_type.policy.judge(error, retry_count=record.retry_count, max_retries=record.new.max_retries)
            if not isinstance(verdict, Retry):
                return _fail(record, error, verdict.reason)
            record.waits.append(verdict.delay_s)
            record.retry_count += 1
        else:
            record.status, record.error = Status.COMPLETED, None
            return (*children, *_present(record.new.on_success))


def _attempt(record: Record, job_type: JobType) -> tuple[NewJob, ...]:
    from pool.worker.context import in_task
    from pool.worker.results import ResultNotStorable, to_json

    arguments = job_type.arguments(record.new.payload)
    current = _current_for(record)
    token = in_task.set(current)
    try:
        result = job_type.function(**arguments)
        record.result = asyncio.run(result) if inspect.iscoroutine(result) else result
    finally:
        in_task.reset(token)
    try:
        record.result_text = to_json(record.result)
    except ResultNotStorable as error:  # the effects are done: running it again would only repeat them
        raise GiveUp(str(error)) from error
    return current.close()


def _current_for(record: Record) -> "CurrentJob":
    from pool.backends.contract import Work
    from pool.worker.context import CurrentJob, Place
    from pool.worker.mailbox import Mailbox
    from pool.worker.timeouts import Interrupts

    claim = _claim_of(record)
    store = cast(Work, _Reports(record))
    interrupts = cast(Interrupts, _NoInterrupts())
    mailbox = cast(Mailbox, _NeverStopping())
    return CurrentJob(claim, Place(LANE, store, interrupts, mailbox, child_of), record.new.timeout)


def _claim_of(record: Record) -> Claim:
    new = record.new
    return Claim(
        job_id=new.id, claim=record.retry_count + 1, type=new.type, queue=new.queue, payload=new.payload,
        priority=new.priority, attempt=record.retry_count + 1, retry_count=record.retry_count,
        max_retries=new.max_retries, kill_count=0, misfits=0, timeout=new.timeout, created_at=record.created_at,
        claimed_at=wall_now(), claimed_boottime=boottime_now(), checkpoint=record.checkpoint, owner=new.owner,
    )  # fmt: skip


class _Reports:
    """Takes progress and checkpoints as the store would."""

    def __init__(self, record: Record) -> None:
        self._record = record

    def report(
        self, held: Any, *, progress: float | None = None, note: str | None = None, checkpoint: str | None = None
    ) -> bool:
        record = self._record
        record.progress = record.progress if progress is None else progress
        record.progress_note = record.progress_note if note is None else note
        record.checkpoint = record.checkpoint if checkpoint is None else checkpoint
        return False


class _NoInterrupts:
    """Inline jobs have no timeout, and nobody cancels them or takes them away."""

    def raise_deferred(self) -> None:
        """Nothing was deferred."""


class _NeverStopping:
    """No shutdown reaches a test's jobs."""

    is_stopping = False


def _in_place(job_type: JobType, attempt: Callable[[], tuple[NewJob, ...]]) -> tuple[NewJob, ...]:
    """Here, or in a thread of its own for an async job beside a running event loop."""
    if not (job_type.is_async and _has_running_loop()):
        return attempt()
    outcome: list[tuple[NewJob, ...]] = []
    failure: list[BaseException] = []

    def body() -> None:
        try:
            outcome.append(attempt())
        except BaseException as error:
            failure.append(error)

    thread = threading.Thread(target=contextvars.copy_context().run, args=(body,))
    thread.start()
    thread.join()
    if failure:
        raise failure[0]
    return outcome[0]


def _has_running_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _fail(record: Record, error: BaseException, reason: Reason) -> tuple[NewJob, ...]:
    record.status, record.error, record.reason = Status.FAILED, error, reason
    return _present(record.new.on_failure)


def _present(follower: NewJob | None) -> tuple[NewJob, ...]:
    return () if follower is None else (follower,)
