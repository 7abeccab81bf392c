"""The end of the line: where new jobs are put, whoever brings them (a producer, a job, a batch that is over)."""

from collections.abc import Iterable

from pool.backends.sqlite import limits, rows
from pool.backends.sqlite.statements import statements
from pool.backends.sqlite.transaction import ENQUEUED, HELD, PENDING, SCHEDULED, Transaction
from pool.errors import InvalidJob
from pool.jobs.job import LOCAL_OWNER, NewJob, Receipt

_SQL = statements("intake.sql")


def add_children(tx: Transaction, children: Iterable[NewJob | None], parent_id: str | None) -> None:
    """Jobs that come from a job: a known key yields the job there is, and no limit refuses them."""
    line = Line(tx)
    for child in children:
        if child is not None and not known(tx, child):
            line.add(child, child.parent_id or parent_id)


def known(tx: Transaction, job: NewJob) -> Receipt | None:
    """The receipt for a job that is stored already, by id, idempotency key or unique key."""
    found = tx.run(_SQL["status by id"], (raw_id_of(job.id),)).fetchone()
    if found:
        return Receipt(job.id, rows.STATUSES[found[0]], replayed=True)
    if job.idempotency_key is not None:
        found = tx.run(_SQL["idempotency"], (job.owner, job.idempotency_key)).fetchone()
        if found:
            differs = found[1] != rows.digest_of(job)
            return Receipt(rows.id_text(found[0]), rows.STATUSES[found[2]], replayed=True, payload_differs=differs)
    if job.unique_key is not None:
        found = tx.run(_SQL["live by unique key"], (job.unique_key,)).fetchone()
        if found:
            return Receipt(rows.id_text(found[0]), rows.STATUSES[found[1]], replayed=True)
    return None


def raw_id_of(job_id: str) -> bytes:
    """The stored form of an id that a caller made; InvalidJob when it is none."""
    try:
        return rows.id_bytes(job_id)
    except ValueError:
        raise InvalidJob(f"job id {job_id!r} is not a UUID; make ids with pool.jobs.ids.new_job_id()") from None


class Line:
    """Puts jobs at the end, each a rank further. `batch` is the number of the batch they belong to."""

    def __init__(self, tx: Transaction, batch: int | None = None) -> None:
        self._tx, self._batch = tx, batch
        self._last = -1

    def add(self, job: NewJob, parent_id: str | None) -> Receipt:
        """Store one job that is not stored yet."""
        tx, now = self._tx, self._tx.now
        rank = self._next_rank()
        run_at = due_at(job, now)
        status = PENDING if run_at is None else SCHEDULED
        limited = None if job.limit_key is None else limits.declared(tx, job)
        queue = tx.queue_id(job.queue)
        raw_id = raw_id_of(job.id)
        place = HELD if limited is not None and status == PENDING else status
        is_plain = status == PENDING and job.expires_in is None and job.unique_key is None
        created_at = None if abs(rank / rows.MICROSECONDS - now) < 1.0 else now
        tx.run(
            _SQL["add job"],
            (
                rank, raw_id, place, None if is_plain else place, queue, job.priority,
                tx.name_id(job.type), job.max_retries, job.max_kills,
                job.timeout, run_at, None if job.expires_in is None else now + job.expires_in, created_at,
                None if job.owner == LOCAL_OWNER else tx.name_id(job.owner), job.idempotency_key, job.unique_key,
                None if parent_id is None else raw_id_of(parent_id), rows.follow_ups_of(job), limited, self._batch,
                job.payload,
            ),
        )  # fmt: skip
        if job.idempotency_key is not None:
            tx.run(_SQL["add idempotency"], (job.owner, job.idempotency_key, raw_id, rows.digest_of(job), now))
        self._book(job, queue, status, limited)
        return Receipt(job.id, rows.STATUSES[status])

    def _next_rank(self) -> int:
        if self._last < 0:
            self._last = self._tx.run(_SQL["last rank"]).fetchone()[0] or 0
        self._last = max(int(self._tx.now * rows.MICROSECONDS), self._last + 1)
        return self._last

    def _book(self, job: NewJob, queue: int, status: int, limited: int | None) -> None:
        self._tx.moved(queue, None, status, ENQUEUED)
        if status == SCHEDULED:
            self._tx.ring_keeper()
        elif limited is None:
            self._tx.ring(job.queue, job.priority)
        else:
            self._tx.freed.add(limited)


def due_at(job: NewJob, now: float) -> float | None:
    """When the job is due; None: now."""
    run_at = job.run_at if job.run_at is not None else now + job.delay
    return run_at if run_at > now else None
