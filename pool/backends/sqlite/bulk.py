"""New jobs of the common kind - no keys, no limit, no batch - put at the end of the line by one statement for all."""

import sqlite3
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache

from pool.backends.sqlite import intake, rows
from pool.backends.sqlite.bell import Ring
from pool.backends.sqlite.line import due_at, raw_id_of
from pool.backends.sqlite.statements import statements
from pool.backends.sqlite.transaction import ENQUEUED, PENDING, SCHEDULED, Row, Transaction
from pool.jobs.job import LOCAL_OWNER, NewJob, Receipt
from pool.jobs.lifecycle import Status

_SQL = statements("intake.sql")
Kinds = Counter[tuple[str, int]]  # how many jobs of each queue and priority
_CLOSED = 2  # in queues.paused, while the store is moved
_ring = lru_cache(Ring)  # a named tuple is made by a function of Python


def rings_of(jobs: Sequence[NewJob]) -> set[Ring]:
    """Whom plain jobs concern."""
    return {_ring(job.queue, job.priority) for job in jobs}


class NotNew(Exception):
    """Some of these jobs is stored already: the step must be done again, one job after the other."""


def enqueue(tx: Transaction, jobs: Sequence[NewJob], refuse_above: int | None, are_plain: bool) -> list[Receipt]:
    """One by one (`intake.enqueue`) when they need a closer look: one is of another kind, its queue is new, closed or full.

    NotNew ends the transaction: what it has written must not stay."""
    if are_plain and refuse_above is None and len(jobs) == 1 and (stored := _enqueue_alone(tx, jobs[0])):
        return stored
    kinds = Counter([(job.queue, job.priority) for job in jobs])
    if not (are_plain or all(map(_is_common, jobs))) or not _have_room(tx, kinds, refuse_above):
        return intake.enqueue(tx, jobs, refuse_above)
    try:
        return _add_plain(tx, jobs, kinds) if are_plain else _add(tx, jobs)
    except sqlite3.IntegrityError as problem:
        raise NotNew from problem


def _enqueue_alone(tx: Transaction, job: NewJob) -> list[Receipt] | None:
    """One job that is plain by `rows.is_plain`, by two statements. None, having changed nothing, when it needs a closer
    look: its queue or type is new here, the queue closed or full, its books of this hour are not begun, or the line ends
    at a place that is not past."""
    queue, kind, rank = (
        tx.host.queue_ids.get(job.queue),
        tx.host.name_ids.get(job.type),
        int(tx.now * rows.MICROSECONDS),
    )
    if queue is None or kind is None or not tx.run(_SQL["book one plain job"], (queue, tx.hour, rank)).rowcount:
        return None
    values = (
        rank, raw_id_of(job.id), queue, job.priority, kind, job.max_retries, job.max_kills, job.timeout, None, job.payload,
    )  # fmt: skip
    try:
        tx.run(_SQL["add plain job"], values)
    except sqlite3.IntegrityError as problem:
        raise NotNew from problem
    return [Receipt(job.id, Status.PENDING)]


def _is_common(job: NewJob) -> bool:
    keys = (job.idempotency_key, job.unique_key, job.limit_key, job.batch_id)
    return keys == (None, None, None, None)


def _have_room(tx: Transaction, kinds: Kinds, refuse_above: int | None) -> bool:
    counts: dict[str, int] = {}
    for (name, _), count in kinds.items():
        counts[name] = counts.get(name, 0) + count
    for name, count in counts.items():
        queue = tx.known_queue_id(name)
        if queue is None:
            return False
        pending, most, paused = tx.run(_SQL["queue room"], (queue,)).fetchone()
        is_above = refuse_above is not None and pending > refuse_above
        if paused >= _CLOSED or is_above or (most and pending + count > most):
            return False
    return True


def _ranks(tx: Transaction, count: int) -> tuple[int, float | None]:
    """The first of so many places at the end of the line, and the time of creation where the places do not tell it."""
    now = tx.now
    first = max(int(now * rows.MICROSECONDS), (tx.run(_SQL["last rank"]).fetchone()[0] or 0) + 1)
    is_told_by_rank = abs((first + count) / rows.MICROSECONDS - now) < 1.0
    return first, None if is_told_by_rank else now


# ---------------------------------------------------------------- what asks for nothing beyond the usual


def _add_plain(tx: Transaction, jobs: Sequence[NewJob], kinds: Kinds) -> list[Receipt]:
    """Jobs that are plain by `rows.is_plain`."""
    first, created_at = _ranks(tx, len(jobs))
    queues, types = tx.host.queue_ids, {name: tx.name_id(name) for name in {job.type for job in jobs}}
    values = [
        (
            rank, raw_id_of(job.id), queues[job.queue], job.priority, types[job.type],
            job.max_retries, job.max_kills, job.timeout, created_at, job.payload,
        )
        for rank, job in enumerate(jobs, start=first)
    ]  # fmt: skip
    tx.run_many(_SQL["add plain job"], values)
    for (queue, _), count in kinds.items():
        tx.moved(queues[queue], None, PENDING, ENQUEUED, times=count)
    return [Receipt(job.id, Status.PENDING) for job in jobs]


# ---------------------------------------------------------------- delayed, of an owner, with follow-ups


def _add(tx: Transaction, jobs: Sequence[NewJob]) -> list[Receipt]:
    values = _as_rows(tx, jobs)
    tx.run_many(_SQL["add job"], values)
    _book(tx, jobs, values)
    return [Receipt(job.id, rows.STATUSES[row[2]]) for job, row in zip(jobs, values, strict=True)]


def _as_rows(tx: Transaction, jobs: Sequence[NewJob]) -> list[Row]:
    """The columns of `add job`."""
    now = tx.now
    rank, created_at = _ranks(tx, len(jobs))
    values = []
    for place, job in enumerate(jobs, start=rank):
        run_at = due_at(job, now)
        status = PENDING if run_at is None else SCHEDULED
        expires_at = None if job.expires_in is None else now + job.expires_in
        parent = job.parent_id
        values.append(
            (
                place, raw_id_of(job.id), status, None if expires_at is None and run_at is None else status,
                tx.host.queue_ids[job.queue], job.priority, tx.name_id(job.type),
                job.max_retries, job.max_kills, job.timeout, run_at, expires_at, created_at,
                None if job.owner == LOCAL_OWNER else tx.name_id(job.owner), None, None,
                None if parent is None else raw_id_of(parent),
                None if job.on_success is job.on_failure is None else rows.follow_ups_of(job), None, None, job.payload,
            )
        )  # fmt: skip
    return values


def _book(tx: Transaction, jobs: Sequence[NewJob], values: Sequence[Row]) -> None:
    for (queue, status), count in Counter([(row[4], row[2]) for row in values]).items():
        tx.moved(queue, None, status, ENQUEUED, times=count)
    kinds = Counter([(job.queue, job.priority, row[2]) for job, row in zip(jobs, values, strict=True)])
    for queue_name, priority, status in kinds:
        if status == PENDING:
            tx.ring(queue_name, priority)
        else:
            tx.ring_keeper()
