"""Steps of producers and operators, inside a write transaction."""

from collections.abc import Iterable, Sequence

from pool.backends.contract import MAX_BATCH
from pool.backends.sqlite import rows
from pool.backends.sqlite.statements import statements
from pool.backends.sqlite.transaction import (
    CANCELLED,
    DID_CANCEL,
    DID_FAIL,
    ENQUEUED,
    FAILED,
    PENDING,
    RUNNING,
    SCHEDULED,
    Row,
    Transaction,
)
from pool.errors import CallerError, InvalidJob, JobNotFound, QueueFull, UniqueConflict
from pool.jobs.job import LOCAL_OWNER, NewJob, Receipt
from pool.jobs.lifecycle import Reason, Status, after

_SQL = statements("intake.sql")


# ---------------------------------------------------------------- enqueue


def enqueue(tx: Transaction, jobs: Sequence[NewJob], refuse_above: int | None) -> list[Receipt]:
    """All jobs or none. Only new ones need room; known ones are answered whatever the queue's length."""
    room = _Room(tx, refuse_above)
    line = Line(tx)
    return [_known(tx, job) or _add_within(room, line, job) for job in jobs]


def check_batch(jobs: Sequence[NewJob]) -> None:
    """Refuse what must not reach the store, before it is opened."""
    if len(jobs) > MAX_BATCH:
        raise CallerError(f"a batch has at most {MAX_BATCH:,} jobs, this one has {len(jobs):,}: split it")
    for job in jobs:
        rows.check_storable(job)


def add_children(tx: Transaction, children: Iterable[NewJob | None], parent_id: str) -> None:
    """Jobs that come from a job: a known key yields the job there is, and no limit refuses them."""
    line = Line(tx)
    for child in children:
        if child is not None and not _known(tx, child):
            line.add(child, child.parent_id or parent_id)


def _known(tx: Transaction, job: NewJob) -> Receipt | None:
    """The receipt for a job that is stored already, by id, idempotency key or unique key."""
    found = tx.run(_SQL["status by id"], (_id_bytes(job.id),)).fetchone()
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


def _id_bytes(job_id: str) -> bytes:
    try:
        return rows.id_bytes(job_id)
    except ValueError:
        raise InvalidJob(f"job id {job_id!r} is not a UUID; make ids with pool.jobs.ids.new_job_id()") from None


def _add_within(room: "_Room", line: "Line", job: NewJob) -> Receipt:
    room.check(job.queue)
    receipt = line.add(job, job.parent_id)
    if receipt.status is Status.PENDING:
        room.took(job.queue)
    return receipt


class Line:
    """The end of the line: where new jobs are put, each a rank further."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx
        self._last = -1

    def add(self, job: NewJob, parent_id: str | None) -> Receipt:
        """Store one job that is not stored yet."""
        tx, now = self._tx, self._tx.now
        rank = self._next_rank()
        run_at = _run_at(job, now)
        status = PENDING if run_at is None else SCHEDULED
        queue = tx.queue_id(job.queue)
        raw_id = _id_bytes(job.id)
        created_at = None if abs(rank / rows.MICROSECONDS - now) < 1.0 else now
        tx.run(
            _SQL["add job"],
            (
                rank, raw_id, status, queue, job.priority, tx.name_id(job.type), job.max_retries, job.max_kills,
                job.timeout, run_at, None if job.expires_in is None else now + job.expires_in, created_at,
                None if job.owner == LOCAL_OWNER else tx.name_id(job.owner), job.idempotency_key, job.unique_key,
                None if parent_id is None else _id_bytes(parent_id), rows.follow_ups_of(job), job.payload,
            ),
        )  # fmt: skip
        if job.idempotency_key is not None:
            tx.run(_SQL["add idempotency"], (job.owner, job.idempotency_key, raw_id, rows.digest_of(job), now))
        self._book(job, queue, status)
        return Receipt(job.id, rows.STATUSES[status])

    def _next_rank(self) -> int:
        if self._last < 0:
            self._last = self._tx.run(_SQL["last rank"]).fetchone()[0] or 0
        self._last = max(int(self._tx.now * rows.MICROSECONDS), self._last + 1)
        return self._last

    def _book(self, job: NewJob, queue: int, status: int) -> None:
        self._tx.moved(queue, None, status, ENQUEUED)
        if status == PENDING:
            self._tx.ring(job.queue, job.priority)
        else:
            self._tx.ring_keeper()


def _run_at(job: NewJob, now: float) -> float | None:
    """When the job is due; None: now."""
    run_at = job.run_at if job.run_at is not None else now + job.delay
    return run_at if run_at > now else None


class _Room:
    """How much each queue of the call may still take."""

    def __init__(self, tx: Transaction, refuse_above: int | None) -> None:
        self._tx, self._refuse_above = tx, refuse_above
        self._left: dict[str, tuple[int, int]] = {}

    def check(self, queue: str) -> None:
        """QueueFull when the caller's limit was passed before this call, or the queue's own would be passed by it."""
        if queue not in self._left:
            self._left[queue] = self._look(queue)
        pending, limit = self._left[queue]
        if limit and pending >= limit:
            raise QueueFull(queue, pending, limit)

    def took(self, queue: str) -> None:
        pending, limit = self._left[queue]
        self._left[queue] = (pending + 1, limit)

    def _look(self, queue: str) -> tuple[int, int]:
        pending, limit = self._tx.run(_SQL["queue room"], (self._tx.queue_id(queue),)).fetchone()
        if self._refuse_above is not None and pending > self._refuse_above:
            raise QueueFull(queue, pending, self._refuse_above)
        return pending, limit


# ---------------------------------------------------------------- orders


def cancel(tx: Transaction, job_id: str, owner: str | None) -> None:
    rank, status, queue, _, _, _, owner_id = _for_an_order(tx, job_id)
    if owner is not None and owner != (LOCAL_OWNER if owner_id is None else tx.name(owner_id)):
        raise JobNotFound(job_id)
    if status == RUNNING:
        tx.run(_SQL["flag"], (rows.FLAG_CANCEL, tx.now, rank))
        return
    after("cancel", rows.STATUSES[status], job_id)
    end_unstarted(tx, rank, queue, status, CANCELLED, Reason.CANCELLED)


def end_unstarted(
    tx: Transaction, rank: int, queue: int, status: int, target: int, reason: Reason, error: str | None = None
) -> None:
    """A job that is not running is over: cancelled, expired, discarded or set aside."""
    tx.run(_SQL["end unstarted"], (target, reason.value, error, tx.now, tx.now, rank))
    tx.moved(queue, status, target, DID_CANCEL if target == CANCELLED else DID_FAIL)


def revive(tx: Transaction, job_id: str, payload: str | None) -> None:
    rank, status, queue, priority, _, unique_key, _ = _for_an_order(tx, job_id)
    after("revive", rows.STATUSES[status], job_id)
    if unique_key is not None:
        holder = tx.run(_SQL["live by unique key"], (unique_key,)).fetchone()
        if holder:
            raise UniqueConflict(unique_key, rows.id_for_people(holder[0]))
    tx.run(_SQL["revive"], (tx.now, payload, rank))
    tx.moved(queue, status, PENDING)
    tx.ring(tx.queue_name(queue), priority)


def discard(tx: Transaction, job_id: str) -> None:
    rank, status, queue, _, _, _, _ = _for_an_order(tx, job_id)
    after("discard", rows.STATUSES[status], job_id)
    end_unstarted(tx, rank, queue, FAILED, CANCELLED, Reason.DISCARDED)


def _for_an_order(tx: Transaction, job_id: str) -> Row:
    row: Row | None = tx.run(_SQL["for an order"], (find_id(job_id),)).fetchone()
    if row is None:
        raise JobNotFound(job_id)
    return row


def find_id(job_id: str) -> bytes:
    """The stored form of an id someone asks for; JobNotFound when it cannot be one."""
    try:
        return rows.id_bytes(job_id)
    except ValueError:
        raise JobNotFound(job_id) from None


def set_queue(tx: Transaction, queue: str, paused: bool | None, max_pending: int | None) -> None:
    tx.run(_SQL["set queue"], (None if paused is None else int(paused), max_pending, tx.queue_id(queue)))
    if paused is False:
        tx.ring_all_of(queue)


# ---------------------------------------------------------------- removal


def top_rank(tx: Transaction) -> int:
    return tx.run(_SQL["last rank"]).fetchone()[0] or 0


def purge(tx: Transaction, queue: str, statuses: frozenset[Status], top: int, limit: int) -> int:
    """Remove jobs of the queue up to the rank `top`; running ones stay."""
    number = tx.known_queue_id(queue)
    if number is None:
        return 0
    removed = 0
    for status in sorted(rows.STATUS_NUMBER[each] for each in statuses - {Status.RUNNING}):
        statement = _SQL[_PURGEABLE.get(status, "purgeable finished")]
        for rank, _, owner, key in tx.all(statement, (status, number, top, limit - removed)):
            remove(tx, rank, number, status, owner, key)
            removed += 1
    return removed


_PURGEABLE = {PENDING: "purgeable pending", SCHEDULED: "purgeable scheduled"}


def remove(tx: Transaction, rank: int, queue: int, status: int, owner: int | None, key: str | None) -> None:
    """Delete one record. Its idempotency key stays, and remembers the state it ended in."""
    if key is not None:
        text = LOCAL_OWNER if owner is None else tx.name(owner)
        tx.run(_SQL["keep final state"], (CANCELLED if status <= RUNNING else status, text, key, rank))
    tx.run(_SQL["delete job"], (rank,))
    tx.moved(queue, status, None)
