"""Taking back what departed workers held: one departure with what the board knew, or a whole pool without."""

from collections.abc import Iterable

from pool.backends.contract import Departure, Recovered, Want
from pool.backends.sqlite import lanes, rows, settling, work
from pool.backends.sqlite.line import Line
from pool.backends.sqlite.statements import statements
from pool.backends.sqlite.transaction import Transaction
from pool.identity import LaneId, PoolId, WorkerId
from pool.jobs.ids import new_job_id
from pool.jobs.internal import BULK_QUEUE
from pool.jobs.job import Cause, NewJob, Outcome, Settlement
from pool.jobs.lifecycle import Reason, Status
from pool.jobs.retry import after_loss

_SQL = statements("upkeep.sql")
FINISHED = "finished"
HeldLane = tuple[int, int, int, int]  # lane row, lane number, rank of the job, claim


def recover(tx: Transaction, departure: Departure) -> list[Recovered]:
    """Take back what the worker held and bar it. A second time there is nothing left to do.

    First the jobs: who is rung for them wakes up meanwhile."""
    worker = departure.worker
    pool = lanes.pool_row(tx, worker.pool)
    held: list[HeldLane] = tx.all(_SQL["lanes of worker"], (pool, worker.slot, worker.generation))
    if departure.lanes is not None:
        held = [lane for lane in held if lane[1] in departure.lanes]
    taken = take_back(tx, departure, held)
    if departure.bar:
        _bar(tx, pool, worker, departure.cause)
    return taken


class Rehearsed(Exception):
    """Ends a rehearsal, so that its transaction leaves nothing."""


def rehearse(tx: Transaction, pool: PoolId) -> None:
    """The recovery of a made-up job, of a queue that no forked worker serves. Always raises Rehearsed."""
    worker = WorkerId(pool, slot=0, generation=0)
    Line(tx).add(NewJob(id=new_job_id(), type="", queue=BULK_QUEUE, payload="null"), None)
    claim = work.exchange(tx, LaneId(worker, 0), 1, None, Want(queues=(BULK_QUEUE,))).answer.claim
    started = {} if claim is None else {0: claim.claim}
    recover(tx, Departure(worker=worker, cause=Cause(reason=Reason.WORKER_LOST), started=started, bar=True))
    raise Rehearsed


def _bar(tx: Transaction, pool: int, worker: WorkerId, cause: Cause) -> None:
    risen = tx.run(_SQL["bar"], (pool, worker.slot, worker.generation)).rowcount
    tx.run(_SQL["bar lanes"], (pool, worker.slot, worker.generation))
    if risen:  # of a place whose workers come and go, the last departed is remembered
        tx.run(_SQL["forget older lanes"], (pool, worker.slot, worker.generation))
    if risen and cause.reason is Reason.WORKER_LOST:
        tx.book_death()


def take_back(tx: Transaction, departure: Departure, held: Iterable[HeldLane]) -> list[Recovered]:
    """Bring each job of these lanes to rest: completed if its lane said so on the board, else by the table of costs."""
    jobs = {lane: job for lane in held if _is_meant(departure, lane, job := settling.held_job(tx, lane[2]))}
    done = {lane: word for lane, job in jobs.items() if job and (word := _finished(departure, lane, job))}
    left = {lane: job for lane, job in jobs.items() if lane not in done}
    started = [lane for lane, job in left.items() if job is not None and _has_started(departure, lane, job)]
    shared = departure.started is not None and len(started) > 1
    taken = [_complete(tx, departure, lane, jobs[lane], word) for lane, word in done.items()]
    taken += (_take_one(tx, departure, lane, job, started=lane in started, shared=shared) for lane, job in left.items())
    return [recovered for recovered in taken if recovered is not None]


def _is_meant(departure: Departure, lane: HeldLane, job: settling.HeldJob | None) -> bool:
    """Not when the lane has gone on to another claim than the one that is to be taken back."""
    meant = departure.claims.get(lane[1])
    return meant is None or (job is not None and meant == (rows.id_for_people(job.raw_id), lane[3]))


def _finished(departure: Departure, lane: HeldLane, job: settling.HeldJob) -> Settlement | None:
    """The word that the lane left on the board, if it is about this very claim of this job."""
    word = departure.finished.get(lane[1])
    if word is None or word.claim != lane[3] or word.job_id != rows.id_for_people(job.raw_id):
        return None
    return Settlement(
        job_id=word.job_id, claim=word.claim, outcome=Outcome.COMPLETED, result=word.result, started_at=word.started_at
    )


def _complete(
    tx: Transaction, departure: Departure, lane: HeldLane, job: settling.HeldJob | None, word: Settlement
) -> Recovered | None:
    if job is None:
        return None
    tx.run(_SQL["lane lost"], (lane[0],))
    worker = str(LaneId(departure.worker, lane[1]))
    settling.settle(tx, job, word, worker)
    return Recovered(word.job_id, Status.COMPLETED, worker, FINISHED)


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
