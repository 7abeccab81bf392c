"""Batches: members are counted as they end, and the callbacks enter in the step of the last member, once each."""

from collections.abc import Iterable

from pool.backends.contract import BatchState
from pool.backends.sqlite import rows
from pool.backends.sqlite.line import add_children
from pool.backends.sqlite.statements import statements
from pool.backends.sqlite.transaction import CANCELLED, COMPLETED, FAILED, Row, Transaction
from pool.errors import BatchNotFound
from pool.jobs.job import NewBatch, NewJob

_SQL = statements("batches.sql")
_ON_COMPLETE, _ON_SUCCESS = 1, 2  # bits of `told`


def find(tx: Transaction, batch_id: str) -> int | None:
    """The number of a batch that is stored."""
    row = tx.run(_SQL["find batch"], (rows.id_bytes(batch_id),)).fetchone() if rows.is_uuid(batch_id) else None
    return row and row[0]


def add(tx: Transaction, batch: NewBatch) -> int:
    """The number of a batch that is not stored yet; it has no members so far."""
    follow_ups = (rows.packed_job(batch.on_complete), rows.packed_job(batch.on_success))
    return tx.run(_SQL["add batch"], (rows.id_bytes(batch.id), *follow_ups, tx.now)).fetchone()[0]  # type: ignore[no-any-return]


def close(tx: Transaction, number: int, total: int) -> None:
    """So many members were stored; an empty batch is over at once."""
    tx.run(_SQL["set total"], (total, number))
    _tell(tx, number, tx.run(_SQL["batch"], (number,)).fetchone())


def member_moved(tx: Transaction, number: int, source: int | None, target: int | None) -> None:
    """A member came to an end, or back from one; follow-ups enter when it was the last."""
    change = [int(target == state) - int(source == state) for state in (COMPLETED, FAILED, CANCELLED)]
    if any(change):
        tx.run(_SQL["count"], (*change, tx.now, number))
        _tell(tx, number, tx.run(_SQL["batch"], (number,)).fetchone())


def _tell(tx: Transaction, number: int, row: Row | None) -> None:
    if row is None:
        return
    total, completed, failed, cancelled, told = (number if isinstance(number, int) else 0 for number in row[:5])
    on_complete, on_success = row[5:]
    due = (_ON_COMPLETE * (completed + failed + cancelled >= total)) | (_ON_SUCCESS * (completed >= total))
    fresh = due & ~told
    if fresh:
        tx.run(_SQL["told"], (told | due, number))
        chosen = (on_complete if fresh & _ON_COMPLETE else None, on_success if fresh & _ON_SUCCESS else None)
        add_children(tx, _read(chosen), None)
        tx.must_sync = True


def _read(packed: Iterable[str | None]) -> list[NewJob | None]:
    """A follow-up that cannot be read any more is dropped."""
    found: list[NewJob | None] = []
    for text in packed:
        try:
            found.append(rows.unpacked_job(text))
        except (ValueError, TypeError):
            found.append(None)
    return found


def state(tx: Transaction, batch_id: str) -> BatchState:
    number = find(tx, batch_id)
    if number is None:
        raise BatchNotFound(batch_id)
    total, completed, failed, cancelled, created_at = tx.run(_SQL["state"], (number,)).fetchone()
    return BatchState(
        id=batch_id, total=total, completed=completed, failed=failed, cancelled=cancelled, created_at=created_at
    )


def id_of(tx: Transaction, number: int | None) -> str | None:
    row = None if number is None else tx.run(_SQL["batch id"], (number,)).fetchone()
    return row and rows.id_for_people(row[0])


def forget(tx: Transaction, before: float, at_most: int) -> None:
    """Batches that are over for long enough and whose members are gone."""
    tx.run(_SQL["forget batches"], (before, at_most))
