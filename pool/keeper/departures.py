"""A dead process on the board → what the store is told of it (`Departure`). Pure but for reading the board."""

import os
import signal
from collections.abc import Iterable

from pool.backends.contract import Departure, Finished
from pool.board.record import Note, Ordered, Record
from pool.identity import WorkerId
from pool.jobs.job import Cause
from pool.jobs.lifecycle import Reason
from pool.keeper.crew import was_ready

_REASONS = {
    Ordered.STOP: Reason.INTERRUPTED,
    Ordered.TIMEOUT: Reason.TIMEOUT,
    Ordered.MEMORY: Reason.MEMORY_LIMIT,
    Ordered.CANCEL: Reason.CANCELLED,
    Ordered.SILENT: Reason.WORKER_LOST,
    Ordered.BOOT: Reason.WORKER_LOST,
}
_TEXTS = {
    Ordered.STOP: "stopped at the deadline of a shutdown or reload",
    Ordered.TIMEOUT: "killed: the job ran longer than its timeout",
    Ordered.MEMORY: "killed: the worker was above memory_kill",
    Ordered.CANCEL: "killed: the job was cancelled by force",
    Ordered.SILENT: "killed: the worker showed no sign of life",
}


def departure_by_note(worker: WorkerId, record: Record) -> Departure:
    """From the parent's note: it saw the wait status and knows what it ordered."""
    note, stack = record.note.read(), record.stack.read().text
    return departure_of(worker, note, stack, record.started_claims(), record.started_jobs(), finished_jobs(record))


def departure_of(
    worker: WorkerId,
    note: Note,
    stack: str,
    started: dict[int, int],
    started_jobs: dict[int, str],
    finished: dict[int, Finished],
) -> Departure:
    """The same from its parts. `started`, `started_jobs`: lane → claim, and job, of what had begun, finished or not."""
    cause, bar = cause_of(note, stack), bool(note.was_ready)
    return Departure(worker=worker, cause=cause, started=started, started_jobs=started_jobs, finished=finished, bar=bar)


def finished_jobs(record: Record, lanes: Iterable[int] | None = None) -> dict[int, Finished]:
    """Lane → its job that completed and was not handed in; of these lanes only, if any are named."""
    found = record.endings()
    return {
        n: Finished(lane.job_id, lane.claim, ending.started_at, ending.result)
        for n, (lane, ending) in found.items()
        if lanes is None or n in lanes
    }


def departure_unwitnessed(worker: WorkerId, record: Record) -> Departure:
    """The parent is stopped or gone, so nobody knows the wait status; the board still says what had started."""
    exiting = record.process.read().exit
    cause = Cause(
        reason=Reason.INTERRUPTED if exiting else Reason.WORKER_LOST, text="ended while its supervisor was away"
    )
    return Departure(
        worker=worker,
        cause=cause,
        started=record.started_claims(),
        started_jobs=record.started_jobs(),
        finished=finished_jobs(record),
        bar=was_ready(record),
    )


def cause_of(note: Note, stack: str = "") -> Cause:
    """Why a process ended, in words and numbers, as its jobs' attempts will show it."""
    number = os.WTERMSIG(note.status) if os.WIFSIGNALED(note.status) else None
    code = os.WEXITSTATUS(note.status) if os.WIFEXITED(note.status) else None
    return Cause(
        reason=_reason_of(note), text=_text_of(note, number, code), stack=stack or None, signal=number, exit_code=code
    )


def _reason_of(note: Note) -> Reason:
    if note.ordered:
        return _REASONS[Ordered(note.ordered)]
    return Reason.INTERRUPTED if note.planned else Reason.WORKER_LOST


def _text_of(note: Note, number: int | None, code: int | None) -> str:
    if note.ordered in _TEXTS:
        return _TEXTS[Ordered(note.ordered)]
    if note.planned:
        return "the worker left in order"
    if number is None:
        return f"the worker exited with code {code}"
    if note.oom:
        return f"signal {number}: killed by the kernel for want of memory"
    return (
        f"signal {number} ({signal.Signals(number).name}), not sent by jobpool"
        if number in _KNOWN
        else f"signal {number}"
    )


_KNOWN = {int(known) for known in signal.Signals}
