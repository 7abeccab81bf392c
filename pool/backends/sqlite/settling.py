"""How a running job comes to rest: by its lane's word or by the loss of its holder. One door out of `running`."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from pool.backends.sqlite import batches, rows
from pool.backends.sqlite.lanes import LaneRecord, StaleLane
from pool.backends.sqlite.line import add_children
from pool.backends.sqlite.statements import statements
from pool.backends.sqlite.transaction import (
    CANCELLED,
    COMPLETED,
    DID_CANCEL,
    DID_COMPLETE,
    DID_FAIL,
    FAILED,
    PENDING,
    RETRIED,
    RUNNING,
    Row,
    Transaction,
)
from pool.jobs.job import Cause, NewJob, Outcome, Settlement
from pool.jobs.lifecycle import MOVES, Reason
from pool.jobs.retry import Counts, Loss

_SQL = statements("work.sql")
_TARGET = {move: rows.STATUS_NUMBER[target] for move, (_, target) in MOVES.items()}


@dataclass(slots=True)
class HeldJob:
    """What must be known of a running job to bring it to rest."""

    rank: int
    raw_id: bytes
    queue: int
    priority: int
    retries: int
    max_retries: int
    kills: int
    max_kills: int
    misfits: int
    losses: int
    flags: int
    follow_ups: str | None
    history: str | None
    claimed_at: float | None
    limited: int | None
    batch: int | None

    @property
    def cancel_requested(self) -> bool:
        return bool(self.flags & rows.FLAG_CANCEL)

    @property
    def counts(self) -> Counts:
        return Counts(self.retries, self.max_retries, self.kills, self.max_kills, self.losses)


@dataclass(slots=True)
class Rest:
    """Where a running job goes, decided before anything is written."""

    move: str
    counts: Counts
    misfits: int
    outcome: Outcome
    reason: Reason | None = None
    run_at: float | None = None
    result: str | None = None
    started_at: float | None = None
    cause: Cause | None = None
    output: str = ""
    runs_alone: bool = False
    keep_lane: int | None = None
    is_loss: bool = False
    is_attempt: bool = True

    @property
    def target(self) -> int:
        return _TARGET[self.move]


def held_job(tx: Transaction, rank: int) -> HeldJob | None:
    row: Row | None = tx.run(_SQL["for a settlement"], (rank,)).fetchone()
    return row and HeldJob(rank, *row)  # type: ignore[return-value]


# ---------------------------------------------------------------- the lane's word


def complete_first_tries(tx: Transaction, told: Sequence[tuple[LaneRecord, Settlement]]) -> None:
    """The hot path: first attempts of jobs that nothing follows complete, by the words of the lanes that hold them.

    StaleLane when a job is not what its lane remembers."""
    now, said = tx.now, []
    ended: dict[int, int] = {}
    for record, word in told:
        history = rows.only_attempt(record.worker, word, now)
        said.append((word.started_at, now, rows.storable(word.result), history, record.held))
        ended[record.queue] = ended.get(record.queue, 0) + 1
    if tx.run_many(_SQL["complete at first try"], said) != len(said):
        raise StaleLane
    for queue, times in ended.items():
        tx.moved(queue, RUNNING, COMPLETED, DID_COMPLETE, times)
    for record, word in told:
        if word.children or record.max_retries == 0:
            _after_settling(tx, word, record.max_retries)
        record.let_go()


def settle(tx: Transaction, job: HeldJob, word: Settlement, worker: str) -> None:
    """Apply what the holder says of its job."""
    if word.outcome is Outcome.COMPLETED:
        _complete(tx, job, word, worker)
    else:
        come_to_rest(tx, job, rest_by_word(job, word, tx.now), worker)
    _after_settling(tx, word, job.max_retries)


def _after_settling(tx: Transaction, word: Settlement, max_retries: int) -> None:
    """Children, and what must be on disk before the lane is answered."""
    if word.children:
        add_children(tx, word.children, word.job_id)
    if word.children or max_retries == 0:
        tx.must_sync = True


def _complete(tx: Transaction, job: HeldJob, word: Settlement, worker: str) -> None:
    """The common end, in one narrow statement."""
    now = tx.now
    line = rows.attempt_line(job.retries + 1, worker, word.started_at, now, word.outcome, word.cause, word.output)
    history = rows.add_attempt(job.history, line)
    tx.run(_SQL["complete"], (word.started_at, now, rows.storable(word.result), history, job.rank))
    tx.moved(job.queue, RUNNING, COMPLETED, DID_COMPLETE)
    _tell_neighbours(tx, job, COMPLETED)
    if job.follow_ups:
        _follow_up(tx, job, succeeded=True)


def rest_by_word(job: HeldJob, word: Settlement, now: float) -> Rest:
    """Where a settlement other than COMPLETED leads. A cancel flag leaves no way back to pending."""
    retries = job.retries + (word.outcome is Outcome.RETRIED)
    counts = Counts(retries, job.max_retries, job.kills, job.max_kills, job.losses)
    move = _MOVE_OF[word.outcome]
    if move == "retry" and word.delay <= 0:
        move = "release"
    if move in ("retry", "release") and job.cancel_requested:
        move, counts = "abandon", job.counts
    return Rest(
        move=move,
        counts=counts,
        misfits=job.misfits + word.misfit,
        outcome=Outcome.CANCELLED if move == "abandon" else word.outcome,
        reason=_reason_of(move, word),
        run_at=now + max(word.delay, 0.0) if move == "retry" else None,
        started_at=word.started_at,
        cause=word.cause,
        output=word.output,
        is_attempt=word.outcome is not Outcome.RETURNED or word.misfit or word.started_at is not None,
    )


_MOVE_OF = {
    Outcome.FAILED: "fail",
    Outcome.RETRIED: "retry",
    Outcome.RETURNED: "retry",
    Outcome.CANCELLED: "abandon",
}


def _reason_of(move: str, word: Settlement) -> Reason | None:
    if move == "abandon":
        return Reason.CANCELLED
    if move == "fail":
        return word.reason or (word.cause.reason if word.cause else None) or Reason.FATAL_ERROR
    return None


# ---------------------------------------------------------------- the loss of the holder


def rest_by_loss(job: HeldJob, loss: Loss, cause: Cause, *, started: bool, output: str, lane: int) -> Rest:
    """Where `retry.after_loss` sends the job. The lane stays noted: a beat may yet prove that it holds the job."""
    gone = loss.move in ("fail", "abandon")
    return Rest(
        move=loss.move,
        counts=loss.counts,
        misfits=job.misfits,
        outcome=_outcome_of(loss, started),
        reason=loss.reason if gone else None,
        started_at=job.claimed_at if started else None,
        cause=cause,
        output=output,
        runs_alone=loss.runs_alone,
        keep_lane=None if gone else lane,
        is_loss=True,
        is_attempt=started,
    )


def _outcome_of(loss: Loss, started: bool) -> Outcome:
    if loss.move == "abandon":
        return Outcome.CANCELLED
    if loss.move == "release" and (not started or loss.reason is Reason.INTERRUPTED):
        return Outcome.RETURNED
    return Outcome.LOST


# ---------------------------------------------------------------- the door


def come_to_rest(tx: Transaction, job: HeldJob, rest: Rest, worker: str) -> None:
    """Write where the job went, book it, enqueue what follows a failure, ring for what became eligible."""
    target = rest.target
    if target == PENDING:
        tx.ring_ahead(tx.queue_name(job.queue), job.priority)
    tx.run(_SQL["leave running"], (*_columns(tx, job, rest, worker, target), job.rank))
    tx.moved(job.queue, RUNNING, target)
    _count(tx, job, rest, target)
    _tell_neighbours(tx, job, target)
    if target == FAILED and job.follow_ups:
        _follow_up(tx, job, succeeded=False)


def _tell_neighbours(tx: Transaction, job: HeldJob, target: int) -> None:
    """The jobs that wait for its limit, and the batch it is of."""
    if job.limited is not None:
        tx.freed.add(job.limited)
    if job.batch is not None:
        batches.member_moved(tx, job.batch, RUNNING, target)


def _columns(tx: Transaction, job: HeldJob, rest: Rest, worker: str, target: int) -> Iterable[Any]:
    now, cause = tx.now, rest.cause
    over = target >= COMPLETED
    blamed = None if rest.is_loss and rest.outcome is Outcome.RETURNED else cause
    counts = rest.counts
    return (
        target, target, rest.keep_lane, counts.retry_count, counts.kill_count, rest.misfits, counts.loss_count,
        rows.FLAG_ALONE if rest.runs_alone else 0, target, rest.run_at, now,
        None if rest.is_loss or not over else job.claimed_at, rest.started_at, now if over else None,
        rest.reason and rest.reason.value, rows.storable(error_text(blamed)), rows.storable(blamed.exception if blamed else None),
        rows.storable(rest.result), _history(job, rest, worker, now),
    )  # fmt: skip


def _history(job: HeldJob, rest: Rest, worker: str, now: float) -> str | None:
    """One line for each start; a claim that never started leaves none."""
    if not rest.is_attempt:
        return job.history
    line = rows.attempt_line(job.retries + 1, worker, rest.started_at, now, rest.outcome, rest.cause, rest.output)
    return rows.add_attempt(job.history, line)


def error_text(cause: Cause | None) -> str | None:
    """What a person reads as the job's last error."""
    if cause is None:
        return None
    if cause.text is not None:
        return cause.text
    if cause.signal:
        return f"worker died (signal {cause.signal})"
    if cause.exit_code is not None:
        return f"worker exited with code {cause.exit_code}"
    return None


def _count(tx: Transaction, job: HeldJob, rest: Rest, target: int) -> None:
    if rest.counts.retry_count > job.retries:
        tx.happened(job.queue, RETRIED)
    if target == FAILED:
        tx.happened(job.queue, DID_FAIL)
    elif target == CANCELLED:
        tx.happened(job.queue, DID_CANCEL)
    elif rest.run_at is not None:
        tx.ring_keeper()


def _follow_up(tx: Transaction, job: HeldJob, *, succeeded: bool) -> None:
    """Enqueue what was ordered to follow; an order that cannot be read any more is dropped."""
    follower: NewJob | None
    try:
        on_success, on_failure = rows.read_follow_ups(job.follow_ups)
        follower = on_success if succeeded else on_failure
        add_children(tx, [follower], rows.id_text(job.raw_id))
    except (ValueError, TypeError):
        return
    if follower is not None:
        tx.must_sync = True
