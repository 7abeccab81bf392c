"""Enqueue and look up, for programs: safe in threads, in forked children and beside an event loop."""

import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Unpack

from pool.clock import monotonic_now
from pool.errors import CallerError, InvalidJob, OutcomeUnknown, WaitedTooLong
from pool.foreign import ForeignTypes
from pool.jobs import checks, drafts
from pool.jobs.checks import Options
from pool.jobs.drafts import Declared, JobRef
from pool.jobs.job import Job, NewBatch, NewJob, Receipt
from pool.place import Place, find_place

if TYPE_CHECKING:
    from pool.backends.contract import Backend
    from pool.batches import Batch

MAX_BATCH = 10_000
ASK_AGAIN_WITHIN_S = 0.2
FIRST_LOOK_S, LONGEST_LOOK_S = 0.005, 0.25

Item = NewJob | tuple[JobRef, Mapping[str, Any]] | tuple[JobRef, Mapping[str, Any], Options]
JobId = str | Receipt


class Client:
    """A door to one store. Without `url`: the configured one (JOBPOOL_BACKEND__URL, else the configuration file).

    Each thread has its own connection, made at first use; a forked child makes new ones. Every method raises
    BackendUnavailable, within 2 s when the store is away.
    """

    def __init__(self, url: str | None = None, *, namespace: str | None = None) -> None:
        self._url, self._namespace = url, namespace
        self._place: Place | None = None
        self._lines = threading.local()
        self._lifetime = 0
        self._foreign = ForeignTypes(lambda: [state.facts for state in self.backend().pools()])

    @classmethod
    def at(cls, place: Place) -> "Client":
        """A client of a place that was found already."""
        client = cls(place.url, namespace=place.namespace)
        client._place = place
        return client

    # ------------------------------------------------------------ enqueue

    def enqueue(
        self,
        job: JobRef,
        payload: Mapping[str, Any] | None = None,
        *,
        refuse_above: int | None = None,
        durable: bool = False,
        **options: Unpack[Options],
    ) -> Receipt:
        """Store one job, of a declared function or by the name of its type, before returning.

        `refuse_above`: QueueFull when more jobs than this are pending. `durable`: on Redis, wait for the disk.
        """
        draft = self.draft(job, payload, **options)
        return self.enqueue_drafts([draft], refuse_above=refuse_above, durable=durable)[0]

    def enqueue_many(
        self,
        items: Iterable[Item],
        *,
        progress: Callable[[int], None] | None = None,
        chunked: bool = False,
        refuse_above: int | None = None,
        durable: bool = False,
    ) -> list[Receipt]:
        """Store up to 10,000 jobs, all or none; receipts in input order. `progress` is told how many are stored.

        `chunked=True` takes any number, 10,000 by 10,000, each chunk all or none; an error carries a note of how many
        were stored before it.
        """
        receipts: list[Receipt] = []
        for chunk in _chunks(items, chunked):
            try:
                stored = [self._draft_item(item) for item in chunk]
                receipts += self.enqueue_drafts(stored, refuse_above=refuse_above, durable=durable)
            except Exception as error:
                if receipts:
                    error.add_note(f"{len(receipts):,} jobs of earlier chunks are stored")
                raise
            if progress is not None:
                progress(len(receipts))
        return receipts

    async def enqueue_async(self, job: JobRef, payload: Mapping[str, Any] | None = None, **options: Any) -> Receipt:
        """`enqueue` without holding up the event loop."""
        import asyncio

        return await asyncio.to_thread(self.enqueue, job, payload, **options)

    def draft(self, job: JobRef, payload: Mapping[str, Any] | None = None, **options: Unpack[Options]) -> NewJob:
        """The checked job, not stored."""
        limit = self._payload_limit()  # first: it brings the defaults of [jobs] along
        said: Options = {**drafts.options_of(job), **options}
        job_type = drafts.type_of(job)
        if job_type is not None:
            return drafts.draft_call(job_type, (), _object(payload), said, max_payload=limit)
        return self._foreign.draft(str(job), _object(payload), said, limit)

    def enqueue_call(self, job: Declared, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Receipt:
        """What `job.enqueue(…)` does."""
        limit = self._payload_limit()
        return self.enqueue_drafts([drafts.draft_call(job.type, args, kwargs, job.call_options, max_payload=limit)])[0]

    def drafts(self, items: Iterable[Item]) -> Iterator[NewJob]:
        """The checked jobs, not stored."""
        return (self._draft_item(item) for item in items)

    def enqueue_drafts(
        self,
        jobs: Sequence[NewJob],
        *,
        refuse_above: int | None = None,
        durable: bool = False,
        batch: NewBatch | None = None,
    ) -> list[Receipt]:
        """Store drafts, all or none. An answer lost at once (a connection that had been closed) is asked for again:
        the same ids are never stored twice."""
        backend, begun = self.backend(), monotonic_now()
        try:
            return backend.enqueue(jobs, refuse_above=refuse_above, durable=durable, batch=batch)
        except OutcomeUnknown:
            if monotonic_now() - begun > ASK_AGAIN_WITHIN_S:
                raise  # the store is silent, and the caller was promised an answer within 2 s
            return backend.enqueue(jobs, refuse_above=refuse_above, durable=durable, batch=batch)

    def batch(self, jobs: Iterable[Item], **options: Any) -> "Batch":
        """Enqueue jobs as one batch with callbacks for when all are over; see `pool.batch`."""
        from pool.batches import batch

        return batch(jobs, client=self, **options)

    def find_batch(self, batch_id: str) -> "Batch":
        """A batch that was enqueued before; its methods raise BatchNotFound when it is not stored (any more)."""
        from pool.batches import Batch

        return Batch(self, batch_id)

    # ------------------------------------------------------------ look up and change

    def get(self, job_id: JobId) -> Job:
        """The job as it is now; JobNotFound."""
        return self.backend().job(_id(job_id))

    def wait(self, job_id: JobId, timeout: float | None = None) -> Job:
        """The job once it is over (completed, failed or cancelled); WaitedTooLong (a TimeoutError) after `timeout` s."""
        deadline = None if timeout is None else monotonic_now() + timeout
        pause = FIRST_LOOK_S
        while (job := self.get(job_id)).status.is_live:
            if deadline is not None and monotonic_now() >= deadline:
                raise WaitedTooLong(job.id, job.status, timeout or 0.0)
            left = LONGEST_LOOK_S if deadline is None else max(0.0, deadline - monotonic_now())
            time.sleep(min(pause, left))
            pause = min(pause * 1.5, LONGEST_LOOK_S)
        return job

    async def wait_async(self, job_id: JobId, timeout: float | None = None) -> Job:
        """`wait` without holding up the event loop."""
        import asyncio

        return await asyncio.to_thread(self.wait, job_id, timeout)

    def cancel(self, job_id: JobId) -> Job:
        """Waiting: it never runs. Running: it is asked to stop. IllegalMove when it is over."""
        return self.backend().cancel(_id(job_id))

    def retry(self, job_id: JobId, payload: Mapping[str, Any] | None = None) -> Job:
        """A failed or cancelled job is pending again, with another payload if given; IllegalMove otherwise."""
        text = None if payload is None else self.draft(self.get(job_id).type, payload).payload
        return self.backend().revive(_id(job_id), payload=text)

    # ------------------------------------------------------------ connections

    @property
    def place(self) -> Place:
        """Where the jobs rest, read from the configuration at first use."""
        if self._place is None:
            self._place = find_place(self._url, self._namespace)
        return self._place

    def _payload_limit(self) -> int:
        return checks.MAX_PAYLOAD if _stand_in is not None else self.place.max_payload

    def backend(self) -> "Backend":
        """This thread's connection to the store."""
        if _stand_in is not None:
            return _stand_in
        line: Line | None = getattr(self._lines, "line", None)
        if line is None or line.pid != os.getpid() or line.lifetime != self._lifetime:
            line = self._lines.line = Line(self.place.open(), self._lifetime)
        return line.backend

    def close(self) -> None:
        """Close this thread's connection; those of other threads are replaced at their next use."""
        self._lifetime += 1
        self._lines.line = None

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _draft_item(self, item: Item) -> NewJob:
        if isinstance(item, NewJob):
            return item
        if not isinstance(item, tuple) or len(item) not in (2, 3):
            raise InvalidJob(f"{item!r} is not (job, payload), (job, payload, options) or a draft")
        options: Options = item[2] if len(item) == 3 else Options()
        return self.draft(item[0], item[1], **options)


class Line:
    """One thread's connection; closed when its thread ends, but never by a forked child, whose it is not."""

    def __init__(self, backend: "Backend", lifetime: int = 0) -> None:
        self.backend, self.lifetime, self.pid = backend, lifetime, os.getpid()

    def __del__(self) -> None:
        if self.pid == os.getpid():
            self.backend.close()


_default: Client | None = None
_stand_in: "Backend | None" = None


def default_client() -> Client:
    """The client behind `job.enqueue(…)`: what `use` was given, else one to the configured store."""
    global _default
    if _default is None:
        _default = Client()
    return _default


def use(client: Client | None) -> None:
    """Make this client the one behind `job.enqueue(…)` in this process; None: back to the configured store."""
    global _default
    _default = client


def stand_in(backend: "Backend | None") -> "Backend | None":
    """Let every client of this process talk to this object instead of its store (None: no longer); returns the former."""
    global _stand_in
    former, _stand_in = _stand_in, backend
    return former


def _chunks(items: Iterable[Item], chunked: bool) -> Iterator[list[Item]]:
    source = iter(items)
    first = list(islice(source, MAX_BATCH))
    if not chunked and len(first) == MAX_BATCH and next(source, None) is not None:
        raise CallerError(f"more than {MAX_BATCH:,} jobs cannot enter in one step; chunked=True sends them in several")
    chunk = first
    while chunk:
        yield chunk
        chunk = list(islice(source, MAX_BATCH))


def _object(payload: Mapping[str, Any] | None) -> dict[str, Any]:
    if type(payload) is dict:
        return payload  # the usual; nobody changes it
    if payload is not None and not isinstance(payload, Mapping):
        raise InvalidJob(f"payload is a {type(payload).__name__}; give a dict with the job's arguments by name")
    return dict(payload or {})


def _id(job_id: JobId) -> str:
    return job_id.job_id if isinstance(job_id, Receipt) else job_id
