"""Fan-in: many jobs enqueued together, and what follows when all of them are over."""

import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from pool.clock import monotonic_now
from pool.errors import IllegalMove, InvalidJob, JobNotFound, WaitedTooLong
from pool.jobs.ids import new_job_id
from pool.jobs.job import Job, NewBatch, NewJob

if TYPE_CHECKING:
    from pool.backends.contract import BatchState
    from pool.client import Client, Item

FIRST_LOOK_S, LONGEST_LOOK_S = 0.01, 0.5
PAGE = 500


class Batch:
    """A batch that is stored; `id` finds it again from anywhere with `client.find_batch(id)`."""

    def __init__(self, client: "Client", batch_id: str) -> None:
        self._client, self.id = client, batch_id

    def __repr__(self) -> str:
        return f"<batch {self.id}>"

    def state(self) -> "BatchState":
        """How many of its jobs completed, failed, were cancelled, and are open; BatchNotFound."""
        return self._client.backend().batch(self.id)

    @property
    def progress(self) -> float:
        """The share of its jobs that are over, 0 to 1."""
        state = self.state()
        return 1.0 if state.is_over else 1 - state.open / state.total

    def jobs(self) -> Iterator[Job]:
        """Its jobs, newest first, as far as they are kept."""
        from pool.backends.contract import JobFilter

        after: str | None = None
        while True:
            page = self._client.backend().jobs(JobFilter(batch_id=self.id), after=after, limit=PAGE)
            yield from page.jobs
            after = page.after
            if after is None:
                return

    def cancel(self) -> int:
        """Cancel the rest: jobs that wait never run, running ones are asked to stop. How many this concerned.

        The callbacks follow all the same once the last is over (`on_success` only if all had completed)."""
        open_ids = [job.id for job in self.jobs() if job.status.is_live]
        return sum(self._cancel_one(job_id) for job_id in open_ids)

    def wait(self, timeout: float | None = None) -> "BatchState":
        """Its state once all jobs are over; WaitedTooLong (a TimeoutError) after `timeout` s."""
        deadline = None if timeout is None else monotonic_now() + timeout
        pause = FIRST_LOOK_S
        while not (state := self.state()).is_over:
            if deadline is not None and monotonic_now() >= deadline:
                raise WaitedTooLong(self.id, f"open ({state.open:,} jobs)", timeout or 0.0)
            left = LONGEST_LOOK_S if deadline is None else max(0.0, deadline - monotonic_now())
            time.sleep(min(pause, left))
            pause = min(pause * 1.5, LONGEST_LOOK_S)
        return state

    def _cancel_one(self, job_id: str) -> bool:
        try:
            self._client.cancel(job_id)
        except (IllegalMove, JobNotFound):  # it came to its end meanwhile
            return False
        return True


def batch(
    jobs: "Iterable[Item]",
    *,
    on_complete: NewJob | None = None,
    on_success: NewJob | None = None,
    batch_id: str | None = None,
    client: "Client | None" = None,
) -> Batch:
    """Enqueue up to 10,000 jobs as one batch, all or none. Callbacks are drafts: `report.draft(…)`.

    `on_complete` is enqueued once all jobs are over, `on_success` once all have completed (also when dead letters were
    retried later): exactly once, in the step in which the last job ends. A job that answers for a key used before is
    no member. `batch_id` (a UUIDv7, `pool.jobs.ids.new_job_id()`) makes repeating the call harmless.
    """
    from pool.client import default_client

    client = client or default_client()
    callbacks = {
        "on_complete": _callback(on_complete, "on_complete"),
        "on_success": _callback(on_success, "on_success"),
    }
    stored = NewBatch(id=batch_id or new_job_id(), **callbacks)
    client.enqueue_drafts(list(client.drafts(jobs)), batch=stored)
    return Batch(client, stored.id)


def _callback(job: NewJob | None, field: str) -> NewJob | None:
    if job is None or isinstance(job, NewJob):
        return job
    raise InvalidJob(f"{field} is a {type(job).__name__}; make the callback with job.draft(…)")
