"""A SQLite store as something that can be moved (backends/moving.py)."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from pool.backends.contract import AuditEntry, Backend
from pool.backends.moving import Books, CarriedBatch, CarriedJob, CarriedKey, Mark, Sign
from pool.backends.sqlite import limits, notes, rows, showing
from pool.backends.sqlite.backend import SqliteBackend
from pool.backends.sqlite.inspection import holder_of
from pool.backends.sqlite.leases import Life, as_pool_row, life_of
from pool.backends.sqlite.statements import statements
from pool.backends.sqlite.transaction import HELD, PENDING, Row, Transaction
from pool.errors import BackendUnavailable, ConfigError
from pool.jobs.job import LOCAL_OWNER, Attempt
from pool.jobs.lifecycle import Status

_SQL = statements("moving.sql")
_INSPECTION = statements("inspection.sql")
_LINE = _SQL["line"].format(columns=showing.JOB_COLUMNS)
_COLUMNS = 36  # of JOB_COLUMNS
_COUNTED = ("enqueued", "completed", "retried", "failed", "cancelled", "deaths")


class SqliteMoving:
    """Movable. Works through the backend's own store; every write is on the disk when it returns."""

    def __init__(self, backend: Backend) -> None:
        if not isinstance(backend, SqliteBackend):
            raise ConfigError(f"{backend.url} is no Sqlite store")
        self._backend = backend
        self._store = backend._store

    # ------------------------------------------------------------ the mark

    def mark(self) -> Mark | None:
        return self._store.read(_mark)

    def set_mark(self, mark: Mark | None) -> None:
        self._store.write(lambda tx: _set_mark(tx, mark), durable=True)

    def signs_of_life(self) -> list[Sign]:
        return self._store.read(_signs_of_life)

    def count(self) -> tuple[int, int]:
        jobs, keys = self._store.read(lambda tx: tx.run(_SQL["count"]).fetchone())
        return jobs, keys

    # ------------------------------------------------------------ jobs

    def jobs(self, at_once: int) -> Iterator[list[CarriedJob]]:
        after = -1
        while True:
            found, after = self._store.read(lambda tx, after=after: _portion(tx, after, at_once))  # type: ignore[misc]
            if not found:
                return
            yield found

    def hold(self, jobs: Sequence[CarriedJob]) -> None:
        self._store.write(lambda tx: _hold(tx, self._require_mark(tx), jobs), durable=True)

    def drop(self, job_ids: Sequence[str]) -> None:
        self._store.write(lambda tx: _drop(tx, self._require_mark(tx), job_ids), durable=True)

    # ------------------------------------------------------------ idempotency

    def keys(self, at_once: int) -> list[CarriedKey]:
        return self._store.read(lambda tx: [_carried_key(*row) for row in tx.all(_SQL["keys"], (at_once,))])

    def hold_keys(self, keys: Sequence[CarriedKey]) -> None:
        def step(tx: Transaction) -> None:
            for key in keys:
                final = None if key.final is None else rows.STATUS_NUMBER[key.final]
                job_id = rows.id_bytes(key.job_id)
                tx.run(_SQL["put key down"], (key.owner, key.key, job_id, key.digest, key.created_at, final))

        self._store.write(step, durable=True)

    def drop_keys(self, keys: Sequence[CarriedKey]) -> None:
        def step(tx: Transaction) -> None:
            for key in keys:
                tx.run(_SQL["remove key"], (key.owner, key.key))

        self._store.write(step, durable=True)

    # ------------------------------------------------------------ books

    def books(self) -> Books:
        return self._store.read(_books)

    def hold_books(self, books: Books) -> None:
        self._store.write(lambda tx: _hold_books(tx, self._require_mark(tx), books), durable=True)

    def drop_books(self) -> None:
        self._store.write(_drop_books, durable=True)

    def _require_mark(self, tx: Transaction) -> Mark:
        mark = _mark(tx)
        if mark is None:
            raise BackendUnavailable(
                self._backend.url, "the mark of this move is no longer there: somebody took it off"
            )
        return mark


# ---------------------------------------------------------------- the mark


def _mark(tx: Transaction) -> Mark | None:
    found = tx.run(_SQL["mark"]).fetchone()
    return Mark.read(found[0]) if found else None


def _set_mark(tx: Transaction, mark: Mark | None) -> None:
    tx.run(_SQL["take off"])
    if mark is not None:
        tx.run(_SQL["put on"], (mark.as_text(),))
        tx.run(_SQL["close queues"])
        return
    for name, paused in tx.all(_SQL["open queues"]):
        if not paused:
            tx.ring_all_of(name)
    tx.freed.update(row[0] for row in tx.all("SELECT id FROM limits"))
    limits.let_go(tx)


def _signs_of_life(tx: Transaction) -> list[Sign]:
    """Pools whose supervisor lives, and those that cannot be judged from here and have beaten within their lease."""
    found = []
    for row in tx.all(_INSPECTION["pools"]):
        pool = as_pool_row(row[:11])
        life = life_of(pool.supervisor, tx.host)
        if life is Life.ALIVE or (life is Life.UNKNOWN and not pool.is_silent(tx.host)):
            found.append(Sign(str(pool.pool), max(0.0, tx.host.boottime() - pool.beat_boot), pool.lease))
    return found


# ---------------------------------------------------------------- out


def _portion(tx: Transaction, after: int, at_once: int) -> tuple[list[CarriedJob], int]:
    found = tx.all(_LINE, (after, at_once))
    return [_carried(tx, row) for row in found], (found[-1][0] if found else after)


def _carried(tx: Transaction, row: Row) -> CarriedJob:
    history, checkpoint, follow_ups, count, per_s, running = row[_COLUMNS:]
    job = showing.as_job(tx, row[:_COLUMNS], holder_of(tx, row), history)
    return CarriedJob(
        job=job,
        checkpoint=rows.readable(checkpoint),
        runs_alone=bool(row[13] & rows.FLAG_ALONE),
        is_late=job.status is Status.PENDING and row[15] is not None,
        limit=(count or 0, per_s or 0.0, running or 0),
        follow_ups=_follow_ups(follow_ups),
    )


def _follow_ups(text: str | None) -> tuple[Any, Any]:
    """Broken ones are dropped: the store itself would set the job aside for them."""
    try:
        return rows.read_follow_ups(text)
    except (ValueError, TypeError):
        return None, None


def _carried_key(
    owner: str, key: str, raw_id: bytes, digest: bytes, created_at: float, final: int | None
) -> CarriedKey:
    status = None if final is None else rows.STATUSES[final]
    return CarriedKey(
        owner=owner, key=key, job_id=rows.id_text(raw_id), digest=digest, created_at=created_at, final=status
    )


def _books(tx: Transaction) -> Books:
    hours: dict[int, dict[str, int]] = {}
    for hour, *counts in tx.all(_SQL["hours"]):
        known = hours.setdefault(hour, {})
        for name, count in zip(_COUNTED, counts, strict=True):
            if count:
                known[name] = known.get(name, 0) + int(count)
    return Books(
        queues={name: (bool(paused), limit) for name, paused, limit in tx.all(_SQL["queue settings"])},
        ticks={
            name: (version, due, job and rows.id_for_people(job)) for name, version, due, job in tx.all(_SQL["ticks"])
        },
        hours=hours,
        batches=tuple(_carried_batch(row) for row in tx.all(_SQL["batches"])),
        ageing_s=notes.ageing(tx),
        settings={name: value for name, value in tx.all(_SQL["settings"]) if name != "ageing"},
        audit=tuple(AuditEntry(at=at, who=who, act=act, details=text) for at, who, act, text in tx.all(_SQL["audit"])),
    )


def _carried_batch(row: Row) -> CarriedBatch:
    raw_id, total, completed, failed, cancelled, told, created_at, updated_at, on_complete, on_success = row
    return CarriedBatch(
        id=rows.id_text(raw_id),
        total=total,
        completed=completed,
        failed=failed,
        cancelled=cancelled,
        told=told,
        created_at=created_at,
        updated_at=updated_at,
        on_complete=rows.unpacked_job(on_complete),
        on_success=rows.unpacked_job(on_success),
    )


# ---------------------------------------------------------------- in


def _hold(tx: Transaction, _: Mark, jobs: Sequence[CarriedJob]) -> None:
    last = tx.run("SELECT max(rank) FROM jobs").fetchone()[0] or 0
    for carried in jobs:
        raw_id = rows.id_bytes(carried.job.id)
        if tx.run("SELECT 1 FROM jobs WHERE id = ?", (raw_id,)).fetchone() is None:
            last = max(last + 1, int(carried.job.created_at * rows.MICROSECONDS))
            _put_down(tx, last, raw_id, carried)
    tx.rings.clear()  # nobody may take them yet
    tx.run(_SQL["close queues"])


def _put_down(tx: Transaction, rank: int, raw_id: bytes, carried: CarriedJob) -> None:
    job, status = carried.job, rows.STATUS_NUMBER[carried.job.status]
    queue = tx.queue_id(job.queue)
    limited = None if job.limit_key is None else limits.declared(tx, carried.as_enqueued())
    batch = None if job.batch_id is None else tx.run(_SQL["name batch"], (rows.id_bytes(job.batch_id),)).fetchone()[0]
    place = HELD if limited is not None and status == PENDING else status
    values = (
        rank, raw_id, place, place, queue, job.priority,
        tx.name_id(job.type), job.claim, job.retry_count, job.max_retries, job.kill_count, job.max_kills, job.misfits,
        job.loss_count, rows.FLAG_ALONE * carried.runs_alone, job.timeout, carried.due_at, job.expires_at,
        job.created_at, job.updated_at, job.claimed_at, job.started_at, job.finished_at,
        None if job.owner == LOCAL_OWNER else tx.name_id(job.owner), job.idempotency_key, job.unique_key,
        None if job.parent_id is None else rows.id_bytes(job.parent_id), job.reason and job.reason.value,
        rows.storable(job.error), rows.storable(job.exception), job.progress, rows.storable(job.progress_note),
        rows.storable(carried.checkpoint), rows.follow_ups_of(carried.as_enqueued()),
        rows.storable(job.result), _history(job.attempts), limited, batch, job.payload,
    )  # fmt: skip
    tx.run(_SQL["put down"], values)
    tx.moved(queue, None, PENDING if status == HELD else status)


def _history(attempts: Sequence[Attempt]) -> str | None:
    lines = [
        rows.attempt_line(one.number, one.worker, one.started_at, one.ended_at, one.outcome, one.cause, one.output)
        for one in attempts
    ]
    return json.dumps(lines, separators=(",", ":")) if lines else None


def _drop(tx: Transaction, _: Mark, job_ids: Sequence[str]) -> None:
    for job_id in job_ids:
        for queue, status in tx.all(_SQL["remove"], (rows.id_bytes(job_id),)):
            tx.moved(queue, status, None)


def _hold_books(tx: Transaction, mark: Mark, books: Books) -> None:
    if mark.has_books:
        return
    for name, (paused, limit) in books.queues.items():
        tx.run(_SQL["set queue"], (int(paused) + 2, limit, tx.queue_id(name)))
    for name, (version, due, job) in books.ticks.items():
        tx.run(_SQL["put tick down"], (name, version, due, job and rows.id_bytes(job)))
    for hour, counts in books.hours.items():
        tx.run(_SQL["add hour"], (hour, *(counts.get(name, 0) for name in _COUNTED)))
    for batch in books.batches:
        _put_batch_down(tx, batch)
    for name, value in books.settings.items():
        notes.set_setting(tx, name, value)
    if books.ageing_s:
        notes.set_ageing(tx, books.ageing_s)
    for entry in books.audit:
        tx.run(_SQL["put note down"], (entry.at, entry.who, entry.act, entry.details))
    tx.rings.clear()
    tx.run(_SQL["take off"])
    tx.run(_SQL["put on"], (replace(mark, has_books=True).as_text(),))
    tx.run(_SQL["close queues"])


def _put_batch_down(tx: Transaction, batch: CarriedBatch) -> None:
    counts = (batch.total, batch.completed, batch.failed, batch.cancelled, batch.told)
    callbacks = (rows.packed_job(batch.on_complete), rows.packed_job(batch.on_success))
    times = (batch.created_at, batch.updated_at)
    tx.run(_SQL["put batch down"], (rows.id_bytes(batch.id), *counts, *times, *callbacks))


def _drop_books(tx: Transaction) -> None:
    for table in ("ticks", "hours", "batches", "settings", "audit", "limits"):
        tx.run(f"DELETE FROM {table}")
    tx.run(_SQL["close books"])
