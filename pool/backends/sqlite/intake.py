"""Steps of producers and operators, inside a write transaction."""

from collections.abc import Sequence
from dataclasses import replace

from pool.backends.contract import MAX_BATCH
from pool.backends.sqlite import batches, rows
from pool.backends.sqlite.line import Line, known
from pool.backends.sqlite.marks import refuse_if_moving
from pool.backends.sqlite.statements import statements
from pool.backends.sqlite.transaction import (
    CANCELLED,
    DID_CANCEL,
    DID_FAIL,
    FAILED,
    HELD,
    PENDING,
    RUNNING,
    SCHEDULED,
    Row,
    Transaction,
)
from pool.errors import BatchClosed, CallerError, InvalidJob, JobNotFound, QueueFull, UniqueConflict
from pool.jobs.job import LOCAL_OWNER, PAYLOAD_REPLACED, NewBatch, NewJob, Outcome, Receipt
from pool.jobs.lifecycle import Reason, Status, after

_SQL = statements("intake.sql")


# ---------------------------------------------------------------- enqueue


def enqueue(
    tx: Transaction, jobs: Sequence[NewJob], refuse_above: int | None, batch: NewBatch | None = None
) -> list[Receipt]:
    """All jobs or none. Only new ones need room; known ones are answered whatever the queue's length."""
    refuse_if_moving(tx)
    number = None if batch is None else batches.find(tx, batch.id)
    is_new = batch is not None and number is None
    if is_new and batch is not None:
        number = batches.add(tx, batch)
    elif batch is not None and not all(known(tx, job) for job in jobs):
        raise BatchClosed(batch.id)
    room, line = _Room(tx, refuse_above), Line(tx, number if is_new else None)
    members = jobs if batch is None else [replace(job, batch_id=batch.id) for job in jobs]
    receipts = [known(tx, job) or _add_within(room, line, job) for job in members]
    if is_new and number is not None:
        batches.close(tx, number, sum(not receipt.replayed for receipt in receipts))
    return receipts


def check_batch(jobs: Sequence[NewJob], batch: NewBatch | None = None) -> bool:
    """Refuse what must not reach the store, before it is opened. Whether all of it is plain."""
    if len(jobs) > MAX_BATCH:
        raise CallerError(f"a batch has at most {MAX_BATCH:,} jobs, this one has {len(jobs):,}: split it")
    if batch is None and all(map(rows.is_plain, jobs)):
        return True
    follow_ups = (batch.on_complete, batch.on_success) if batch else ()
    for job in (*jobs, *follow_ups):
        if job is not None:
            rows.check_storable(job)
    if batch is not None and not rows.is_uuid(batch.id):
        raise InvalidJob(f"batch id {batch.id!r} is not a UUID; leave it out to have one made")
    return False


def _add_within(room: "_Room", line: "Line", job: NewJob) -> Receipt:
    room.check(job.queue)
    receipt = line.add(job, job.parent_id)
    if receipt.status is Status.PENDING:
        room.took(job.queue)
    return receipt


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
        pending, limit, _ = self._tx.run(_SQL["queue room"], (self._tx.queue_id(queue),)).fetchone()
        if self._refuse_above is not None and pending > self._refuse_above:
            raise QueueFull(queue, pending, self._refuse_above)
        return pending, limit


# ---------------------------------------------------------------- orders


def cancel(tx: Transaction, job_id: str, owner: str | None) -> None:
    rank, status, queue, _, _, _, owner_id, _, _, _ = _for_an_order(tx, job_id)
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
    limited, batch = tx.run(
        _SQL["end unstarted"], (target, target, reason.value, error, tx.now, tx.now, rank)
    ).fetchone()
    tx.moved(queue, status, target, DID_CANCEL if target == CANCELLED else DID_FAIL)
    if limited is not None:
        tx.freed.add(limited)
    if batch is not None:
        batches.member_moved(tx, batch, status, target)


def revive(tx: Transaction, job_id: str, payload: str | None, by: str) -> None:
    rank, status, queue, priority, _, unique_key, _, limited, batch, history = _for_an_order(tx, job_id)
    after("revive", rows.STATUSES[status], job_id)
    if unique_key is not None:
        holder = tx.run(_SQL["live by unique key"], (unique_key,)).fetchone()
        if holder:
            raise UniqueConflict(unique_key, rows.id_for_people(holder[0]))
    if payload is not None:
        history = rows.add_attempt(
            history, rows.attempt_line(0, by, None, tx.now, Outcome.RETURNED, PAYLOAD_REPLACED, "")
        )
    place = PENDING if limited is None else HELD
    tx.run(_SQL["revive"], (place, place, tx.now, payload, history, rank))
    tx.moved(queue, status, PENDING)
    tx.ring(tx.queue_name(queue), priority)
    if limited is not None:
        tx.freed.add(limited)
    if batch is not None:
        batches.member_moved(tx, batch, status, PENDING)


def discard(tx: Transaction, job_id: str) -> None:
    rank, status, queue, *_ = _for_an_order(tx, job_id)
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
    refuse_if_moving(tx)
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
    for status in sorted(n for n, each in rows.STATUSES.items() if each in statuses - {Status.RUNNING}):
        statement = _SQL[_PURGEABLE.get(status, "purgeable finished")]
        for rank, _, owner, key in tx.all(statement, (status, number, top, limit - removed)):
            remove(tx, rank, number, status, owner, key)
            removed += 1
    return removed


_PURGEABLE = {PENDING: "purgeable pending", HELD: "purgeable held back", SCHEDULED: "purgeable scheduled"}


def delete(tx: Transaction, job_ids: Sequence[str]) -> int:
    """Remove these jobs, unless they run."""
    removed = 0
    for job_id in job_ids:
        raw = rows.id_bytes(job_id) if rows.is_uuid(job_id) else b""
        for rank, status, owner, key, queue in tx.all(_SQL["deletable"], (raw,)):
            remove(tx, rank, queue, status, owner, key)
            removed += 1
    return removed


def remove(tx: Transaction, rank: int, queue: int, status: int, owner: int | None, key: str | None) -> None:
    """Delete one record. Its idempotency key stays, and remembers the state it ended in."""
    if key is not None:
        text = LOCAL_OWNER if owner is None else tx.name(owner)
        tx.run(_SQL["keep final state"], (CANCELLED if status <= RUNNING else status, text, key, rank))
    limited, batch = tx.run(_SQL["delete job"], (rank,)).fetchone()
    tx.moved(queue, status, None)
    if status <= PENDING and limited is not None:
        tx.freed.add(limited)
    if status <= PENDING and batch is not None:
        batches.member_moved(tx, batch, status, CANCELLED)
