"""When to try again and when to give up: pure rules, no clock, no I/O.

Two questions. `Policy.judge` is asked by a worker about an attempt that ended in an exception. `after_loss` is asked
by the store about a job whose holder is gone; both backends answer it alike.
"""

from dataclasses import dataclass

from pool.jobs.lifecycle import Reason

MAX_POOL_LOSSES = 10


@dataclass(frozen=True, slots=True)
class Counts:
    """What a job has used up so far, and what it is allowed."""

    retry_count: int
    max_retries: int
    kill_count: int
    max_kills: int
    loss_count: int = 0


@dataclass(frozen=True, slots=True)
class Loss:
    """What becomes of a job that lost its holder: a move of the lifecycle table, its reason, and the new counts."""

    move: str  # "release", "fail" or "abandon"
    reason: Reason
    counts: Counts
    runs_alone: bool = False


def after_loss(
    counts: Counts,
    reason: Reason,
    *,
    started: bool,
    board_lost: bool = False,
    shared: bool = False,
    cancel_requested: bool = False,
) -> Loss:
    """The cost of losing a holder, first rule that fits:

    cancel asked for             → cancelled
    never started                → pending, free
    at most once (max_retries 0) → failed with the reason, never started again
    our own shutdown             → pending, free
    board lost (pool, host, boot)→ pending, no retry; failed `worker_lost` at the tenth loss
    shared with other lanes      → pending, no retry, runs alone next
    unordered death              → kill_count + 1; failed `worker_lost` at max_kills
    any other                    → one retry used; failed with the reason when none is left
    """
    if cancel_requested or reason is Reason.CANCELLED:
        return Loss("abandon", Reason.CANCELLED, counts)
    if not started:
        return Loss("release", reason, counts)
    if counts.max_retries == 0:
        return Loss("fail", reason, counts)
    if reason is Reason.INTERRUPTED:
        return Loss("release", reason, counts)
    if board_lost:
        return _after_pool_loss(counts, reason)
    if shared and reason is Reason.WORKER_LOST:
        return Loss("release", reason, counts, runs_alone=True)
    return _after_charged_loss(counts, reason)


def _after_pool_loss(counts: Counts, reason: Reason) -> Loss:
    grown = _with(counts, loss_count=counts.loss_count + 1)
    return Loss("fail" if grown.loss_count >= MAX_POOL_LOSSES else "release", reason, grown)


def _after_charged_loss(counts: Counts, reason: Reason) -> Loss:
    kills = counts.kill_count + (reason is Reason.WORKER_LOST)
    grown = _with(counts, kill_count=kills)
    if reason is Reason.WORKER_LOST and kills >= counts.max_kills:
        return Loss("fail", reason, grown)
    if counts.retry_count >= counts.max_retries:
        return Loss("fail", reason, grown)
    return Loss("release", reason, _with(grown, retry_count=counts.retry_count + 1))


def _with(
    counts: Counts, *, retry_count: int | None = None, kill_count: int | None = None, loss_count: int | None = None
) -> Counts:
    return Counts(
        counts.retry_count if retry_count is None else retry_count,
        counts.max_retries,
        counts.kill_count if kill_count is None else kill_count,
        counts.max_kills,
        counts.loss_count if loss_count is None else loss_count,
    )
