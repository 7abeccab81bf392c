"""Taking back what departed workers held: one departure with what the board knew, or a whole pool without."""

from collections.abc import Iterable

from pool.backends.contract import Departure, Recovered
from pool.backends.sqlite import lanes, rows, settling
from pool.backends.sqlite.statements import statements
from pool.backends.sqlite.transaction import Transaction
from pool.identity import LaneId, WorkerId
from pool.jobs.job import Cause
from pool.jobs.lifecycle import Reason
from pool.jobs.retry import after_loss

_SQL = statements("upkeep.sql")
HeldLane = tuple[int, int, int, int]  # lane row, lane number, rank of the job, claim


def recover(tx: Transaction, departure: Departure) -> list[Recovered]:
    """Take back what the worker held and bar it. A second time there is nothing left to do."""
    worker = departure.worker
    pool = lanes.pool_row(tx, worker.pool)
    held: list[HeldLane] = tx.all(_SQL["lanes of worker"], (pool, worker.slot, worker.generation))
    if departure.lanes is not None:
        held = [lane for lane in held if lane[1] in departure.lanes]
    if departure.bar:
        _bar(tx, pool, worker, departure.cause)
    return take_back(tx, departure, held)


def _bar(tx: Transaction, pool: int, worker: WorkerId, cause: Cause) -> None:
    risen = tx.run(_SQL["bar"], (pool, worker.slot, worker.generation)).rowcount
    tx.run(_SQL["bar lanes"], (pool, worker.slot, worker.generation))
    if risen and cause.reason is Reason.WORKER_LOST:
        tx.book_death()


def take_back(tx: Transaction, departure: Departure, held: Iterable[HeldLane]) -> list[Recovered]:
    """Bring each job of these lanes to rest by the table of costs."""
    jobs = {lane: settling.held_job(tx, lane[2]) for lane in held}
    started = [lane for lane, job in jobs.items() if job is not None and _has_started(departure, lane, job)]
    shared = departure.started is not None and len(started) > 1
    taken = (_take_one(tx, departure, lane, job, started=lane in started, shared=shared) for lane, job in jobs.items())
    return [recovered for recovered in taken if recovered is not None]


def _has_started(departure: Departure, lane: HeldLane, job: settling.HeldJob) -> bool:
    """Only when the board is lost does claimed count as started."""
    if departure.started is None:
        return True
    known = departure.started_jobs.get(lane[1])
    return departure.started.get(lane[1]) == lane[3] and (known is None or rows.id_bytes(known) == job.raw_id)


def _take_one(
    tx: Transaction, departure: Departure, lane: HeldLane, job: settling.HeldJob | None, *, started: bool, shared: bool
) -> Recovered | None:
    row_id, number, _, _ = lane
    tx.run(_SQL["lane lost"], (row_id,))
    if job is None:
        return None
    loss = after_loss(
        job.counts,
        departure.cause.reason or Reason.WORKER_LOST,
        started=started,
        board_lost=departure.started is None,
        shared=shared,
        cancel_requested=job.cancel_requested,
    )
    output = departure.output.get(number, "")
    rest = settling.rest_by_loss(job, loss, departure.cause, started=started, output=output, lane=row_id)
    worker = str(LaneId(departure.worker, number))
    settling.come_to_rest(tx, job, rest, worker)
    return Recovered(rows.id_for_people(job.raw_id), rows.STATUSES[rest.target], worker, loss.reason.value)
