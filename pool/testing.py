"""For tests of programs that use jobpool: jobs run at once in this process, or are only recorded. No store, no workers.

`with pool.testing.inline() as jobs:` or the pytest fixture `jobpool_inline`; docs/jobs.md has an example.
"""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from pool.backends.contract import BatchState, JobFilter, Page
from pool.client import stand_in
from pool.clock import wall_now
from pool.errors import BatchNotFound, CallerError, JobNotFound, QueueFull
from pool.inline import InlineBatch, Record, new_record, run
from pool.jobs.drafts import JobRef, type_of
from pool.jobs.job import Job, NewBatch, NewJob, Receipt
from pool.jobs.lifecycle import Status, after
from pool.jobs.registry import registry

if TYPE_CHECKING:
    from pool.backends.contract import Backend

MAX_BATCH = 10_000


class InlineJobs:
    """Stands in for the store of every client. What was enqueued is in `records`, in order.

    A job that is due runs at once, its retries too, without their waits; a delayed one waits for `run_scheduled`.
    An error of a job is recorded, not raised, as in a pool; `raise_errors` raises the last one from the enqueue.
    """

    kind, url = "inline", "inline:"

    def __init__(self, *, runs: bool = True, raise_errors: bool = False) -> None:
        self.runs, self.raise_errors = runs, raise_errors
        self.records: list[Record] = []
        self._batches: dict[str, InlineBatch] = {}

    # ------------------------------------------------------------ for tests

    def of(self, job: JobRef, **arguments: Any) -> list[Record]:
        """The records of this job whose arguments include these, oldest first."""
        name = _name_of(job)
        return [record for record in self.records if record.type == name and _includes(record.arguments, arguments)]

    def run_scheduled(self) -> list[Record]:
        """Run what waits for its time, as if it had come."""
        waiting = [record for record in self.records if record.status is Status.SCHEDULED]
        for record in waiting:
            self._run(record)
        return waiting

    def run_pending(self) -> list[Record]:
        """Run what was only recorded (with `recording`)."""
        waiting = [record for record in self.records if record.status is Status.PENDING]
        for record in waiting:
            self._run(record)
        return waiting

    def assert_enqueued(self, job: JobRef, /, **arguments: Any) -> Record:
        """The newest record of this job with these arguments; AssertionError lists what there is."""
        found = self.of(job, **arguments)
        if not found:
            raise AssertionError(f"no {_call(_name_of(job), arguments)} was enqueued; there is: {self._listing()}")
        return found[-1]

    def assert_not_enqueued(self, job: JobRef, /, **arguments: Any) -> None:
        """AssertionError when there is such a record."""
        if self.of(job, **arguments):
            raise AssertionError(f"{_call(_name_of(job), arguments)} was enqueued; there is: {self._listing()}")

    def assert_all_completed(self) -> None:
        """AssertionError names the first job that is not completed; its error is the cause."""
        for record in self.records:
            if record.status is not Status.COMPLETED:
                raise AssertionError(f"{record} is {record.status}; its error: {record.error!r}") from record.error

    def clear(self) -> None:
        """Forget all records."""
        self.records.clear()

    def _listing(self) -> str:
        return ", ".join(str(record) for record in self.records) or "nothing"

    # ------------------------------------------------------------ in place of a store

    def enqueue(
        self,
        jobs: Sequence[NewJob],
        *,
        refuse_above: int | None = None,
        durable: bool = False,
        batch: NewBatch | None = None,
    ) -> list[Receipt]:
        """As a store does it: known ids, idempotency keys and live unique keys answer with the first job."""
        if len(jobs) > MAX_BATCH:
            raise CallerError(f"a batch has at most {MAX_BATCH:,} jobs, this one has {len(jobs):,}")
        self._refuse_full(jobs, refuse_above)
        if batch is not None:
            jobs = [replace(job, batch_id=batch.id) for job in jobs]
            self._batches.setdefault(batch.id, InlineBatch(batch))
        fresh = [(job, self._known(job)) for job in jobs]
        receipts = [_replayed(job, known) if known else self._take(job) for job, known in fresh]
        if batch is not None:
            self._batches[batch.id].is_whole = True
        self._tell_batches()
        return receipts

    def batch(self, batch_id: str) -> BatchState:
        if batch_id not in self._batches:
            raise BatchNotFound(batch_id)
        states = [record.status for record in self._members(batch_id)]
        counts = {name: states.count(Status(name)) for name in ("completed", "failed", "cancelled")}
        return BatchState(id=batch_id, total=len(states), **counts)

    def jobs(
        self, which: JobFilter, *, after: str | None = None, limit: int = 50, within_s: float | None = None
    ) -> Page:
        """Of the filters only `batch_id` and `status`; all on one page."""
        found = self.records if which.batch_id is None else self._members(which.batch_id)
        return Page(tuple(r.as_job() for r in found if which.status in (None, r.status)), None)

    def job(self, job_id: str) -> Job:
        return self._record(job_id).as_job()

    def cancel(self, job_id: str, *, owner: str | None = None) -> Job:
        record = self._record(job_id)
        record.status = after("cancel", record.status, job_id)
        self._tell_batches()
        return record.as_job()

    def revive(self, job_id: str, *, payload: str | None = None, by: str = "") -> Job:
        record = self._record(job_id)
        record.status = after("revive", record.status, job_id)
        record.retry_count = 0
        record.new = record.new if payload is None else replace(record.new, payload=payload)
        if self.runs:
            self._run(record)
        return record.as_job()

    def pools(self) -> list[Any]:
        return []

    def ping(self) -> float:
        return 0.0

    def close(self) -> None:
        pass

    def _take(self, job: NewJob) -> Receipt:
        known = self._known(job)  # an earlier one of the same batch
        if known:
            return _replayed(job, known)
        record = new_record(job, wall_now())
        self.records.append(record)
        receipt = Receipt(job.id, record.status)
        if self.runs and record.status is Status.PENDING:
            self._run(record)
        return receipt

    def _run(self, record: Record) -> None:
        followers = run(record)
        if followers:
            self.enqueue(followers)
        self._tell_batches()
        if self.raise_errors and record.error is not None and record.status is Status.FAILED:
            raise record.error

    def _members(self, batch_id: str) -> list[Record]:
        return [record for record in self.records if record.new.batch_id == batch_id]

    def _tell_batches(self) -> None:
        """Enqueue the callbacks of batches that are over, unless their jobs are still coming in."""
        for known in list(self._batches.values()):
            if due := known.due(self.batch(known.new.id)):
                self.enqueue(due)

    def _known(self, job: NewJob) -> Record | None:
        return next((record for record in self.records if record.answers_for(job)), None)

    def _record(self, job_id: str) -> Record:
        for record in self.records:
            if record.new.id == job_id:
                return record
        raise JobNotFound(job_id)

    def _refuse_full(self, jobs: Sequence[NewJob], limit: int | None) -> None:
        for queue in {job.queue for job in jobs} if limit is not None else ():
            pending = sum(r.new.queue == queue and r.status is Status.PENDING for r in self.records)
            if limit is not None and pending > limit:
                raise QueueFull(queue, pending, limit)


@contextlib.contextmanager
def inline(*, raise_errors: bool = False) -> Iterator[InlineJobs]:
    """Inside, whatever any client of this process enqueues runs at once, here. Job types declared inside are forgotten."""
    with _standing_in(InlineJobs(raise_errors=raise_errors)) as jobs:
        yield jobs


@contextlib.contextmanager
def recording() -> Iterator[InlineJobs]:
    """Inside, whatever any client of this process enqueues is recorded and does not run."""
    with _standing_in(InlineJobs(runs=False)) as jobs:
        yield jobs


@contextlib.contextmanager
def _standing_in(jobs: InlineJobs) -> Iterator[InlineJobs]:
    types, former = registry.entries(), stand_in(cast("Backend", jobs))
    try:
        yield jobs
    finally:
        stand_in(former)
        registry.restore(types)


def _name_of(job: JobRef) -> str:
    job_type = type_of(job)
    return job_type.name if job_type is not None else str(job)


def _includes(given: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    return all(name in given and given[name] == value for name, value in wanted.items())


def _replayed(job: NewJob, known: Record) -> Receipt:
    return Receipt(known.new.id, known.status, replayed=True, payload_differs=known.new.payload != job.payload)


def _call(name: str, arguments: Mapping[str, Any]) -> str:
    return f"{name}({', '.join(f'{field}={value!r}' for field, value in arguments.items())})"
