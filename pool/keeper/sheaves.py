"""Jobs claimed ahead must not wait: what a worker cannot start soon goes back, what it has finished is handed in for it.

A worker claims ahead only while we look every few milliseconds, which we do while one wishes it. We act by what the board
says, under the start lock, so that no job is taken back in the moment of its start; each lane is told, on the board and
before the store is, that its claim is no longer its own.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

from pool.backends.contract import Backend, Departure, Finished
from pool.board.board import Board
from pool.board.lanes import Lane, Phase
from pool.board.record import Record
from pool.board.start_lock import TAKEN_BACK_AFTER_S, StartLock
from pool.clock import monotonic_now
from pool.errors import BackendUnavailable
from pool.jobs.job import Cause
from pool.jobs.lifecycle import Reason
from pool.keeper.crew import Crew
from pool.keeper.departures import finished_jobs
from pool.logs import log

LOOK_EVERY_S = 0.005
STOP_LOOKING_AFTER_S = 0.3
CAUSE = Cause(reason=Reason.INTERRUPTED, text="claimed ahead, and the job before it took long")


@dataclass(slots=True)
class Sheaves:
    """`is_watching`: somebody claims ahead or wishes to."""

    board: Board
    crew: Crew
    backend: Backend
    lock_fd: int
    is_watching: bool = False
    _wished_at: float = 0.0
    _turns: int = -1  # of the cells in which workers wish
    _locks: dict[int, StartLock] = field(default_factory=dict)
    _told: dict[tuple[int, int], set[tuple[bytes, int]]] = field(default_factory=dict)  # (record, pid) -> claims

    def notice_wishes(self, now: float) -> None:
        """Begin to look, or leave off when nobody has wished it for a while."""
        turns = sum(record.sheaf.turn for record in self.crew.workers())
        if turns == self._turns and not self.is_watching:
            return
        self._turns = turns
        if any(record.sheaf.read().wishes for record in self.crew.workers()):
            self._wished_at = now
        self.is_watching = now - self._wished_at < STOP_LOOKING_AFTER_S
        if not self.is_watching:
            self._told.clear()

    def pause(self) -> float:
        """How long the keeper may sleep before the next look (seconds)."""
        return LOOK_EVERY_S if self.is_watching else float("inf")

    def attend(self) -> None:
        """Settle whatever waits too long, and say that we have looked."""
        now = monotonic_now()
        self.notice_wishes(now)
        if not self.is_watching:
            return
        for record in list(self.crew.workers()):
            if _is_overdue(record, now):
                self._settle(record)
        self.board.watch.write(monotonic_now())

    def _settle(self, record: Record) -> None:
        lanes = self._give_up(record)
        if not lanes:
            return
        departure = Departure(
            worker=self.crew.worker_id(record),
            cause=CAUSE,
            started={},
            bar=False,
            lanes=tuple(lanes),
            claims={n: (held.lane.job_id, held.lane.claim) for n, held in lanes.items()},
            finished={n: held.finished for n, held in lanes.items() if held.finished is not None},
        )
        try:
            taken = self.backend.recover(departure)
        except BackendUnavailable as error:
            log.limited("sheaves", "claims made ahead must wait for the store", error=str(error))
            return
        self._settled(record).update((held.lane.job, held.lane.claim) for held in lanes.values())
        log.debug("claims made ahead settled", worker=str(departure.worker), jobs=[job.job_id for job in taken])

    def _give_up(self, record: Record) -> dict[int, "_Idle"]:
        """Lane → its job, of those told now or before that the store does not know yet. Nothing where the worker is about to
        start one: it is not waiting long."""
        lock = self._locks.setdefault(record.index, StartLock(self.lock_fd, record.index))
        if not lock.take_if_free():
            return {}
        try:
            if not _is_overdue(record, monotonic_now()):  # closed meanwhile, perhaps opened anew
                return {}
            known = self._settled(record)
            mine = {n: held for n, held in _idle_lanes(record).items() if (held.lane.job, held.lane.claim) not in known}
            for number, held in mine.items():
                order = record.lanes[number].order
                order.write(*order.read()._replace(lost_job=held.lane.job, lost_claim=held.lane.claim))
            return mine
        finally:
            lock.free()

    def _settled(self, record: Record) -> set[tuple[bytes, int]]:
        return self._told.setdefault((record.index, record.tenant.read().pid), set())


class _Idle(NamedTuple):
    """A lane as it stood under the lock: it waits to start, or it has finished."""

    lane: Lane
    finished: Finished | None


def _is_overdue(record: Record, now: float) -> bool:
    """Whether its sheaf has been open for so long that what waits in it is taken back."""
    since = record.sheaf.read().since
    return bool(since) and now - since > TAKEN_BACK_AFTER_S


def _idle_lanes(record: Record) -> dict[int, _Idle]:
    """Those that wait to start; and those that have finished, unless the worker is just handing them in.

    A lane that has finished keeps its ending until the sheaf is closed, which takes the lock."""
    held = record.held_lanes()
    waiting = {n: _Idle(lane, None) for n, lane in held.items() if lane.phase == Phase.CLAIMED}
    if record.process.read().store_call_since > 0:
        return waiting
    done = finished_jobs(record, [n for n, lane in held.items() if lane.phase == Phase.FINISHED])
    return waiting | {n: _Idle(held[n], finished) for n, finished in done.items()}
