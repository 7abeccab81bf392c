"""New jobs of the common kind - no keys, no limit, no batch - put at the end of the line by one statement for all."""

import sqlite3
from collections import Counter
from collections.abc import Sequence

from pool.backends.sqlite import rows
from pool.backends.sqlite.line import due_at, raw_id_of
from pool.backends.sqlite.statements import statements
from pool.backends.sqlite.transaction import ENQUEUED, PENDING, SCHEDULED, Row, Transaction
from pool.jobs.job import LOCAL_OWNER, NewJob, Receipt

_SQL = statements("intake.sql")
_CLOSED = 2  # in queues.paused, while the store is moved


class NotNew(Exception):
    """Some of these jobs is stored already: the step must be done again, one job after the other."""


def enqueue(tx: Transaction, jobs: Sequence[NewJob], refuse_above: int | None) -> list[Receipt] | None:
    """None, having changed nothing, when they need a closer look: one is of another kind, its queue is new, closed or full.

    NotNew ends the transaction: what it has written must not stay."""
    if not all(map(_is_common, jobs)) or not _have_room(tx, jobs, refuse_above):
        return None
    values = _as_rows(tx, jobs)
    try:
        tx.run_many(_SQL["add job"], values)
    except sqlite3.IntegrityError as problem:
        raise NotNew from problem
    _book(tx, jobs, values)
    return [Receipt(job.id, rows.STATUSES[row[2]]) for job, row in zip(jobs, values, strict=True)]


def _is_common(job: NewJob) -> bool:
    keys = (job.idempotency_key, job.unique_key, job.limit_key, job.batch_id)
    return keys == (None, None, None, None)


def _have_room(tx: Transaction, jobs: Sequence[NewJob], refuse_above: int | None) -> bool:
    for name, count in Counter([job.queue for job in jobs]).items():
        queue = tx.known_queue_id(name)
        if queue is None:
            return False
        pending, most, paused = tx.run(_SQL["queue room"], (queue,)).fetchone()
        is_above = refuse_above is not None and pending > refuse_above
        if paused >= _CLOSED or is_above or (most and pending + count > most):
            return False
    return True


def _as_rows(tx: Transaction, jobs: Sequence[NewJob]) -> list[Row]:
    """The columns of `add job`."""
    now, names = tx.now, tx.host.name_ids
    rank = max(int(now * rows.MICROSECONDS), (tx.run(_SQL["last rank"]).fetchone()[0] or 0) + 1)
    is_told_by_rank = abs((rank + len(jobs)) / rows.MICROSECONDS - now) < 1.0
    created_at = None if is_told_by_rank else now
    values = []
    for place, job in enumerate(jobs, start=rank):
        run_at = due_at(job, now)
        status = PENDING if run_at is None else SCHEDULED
        expires_at = None if job.expires_in is None else now + job.expires_in
        parent, kind = job.parent_id, names.get(job.type)
        values.append(
            (
                place, raw_id_of(job.id), status, None if expires_at is None and run_at is None else status,
                tx.host.queue_ids[job.queue], job.priority, tx.name_id(job.type) if kind is None else kind,
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
