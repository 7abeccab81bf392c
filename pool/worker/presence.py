"""How a worker shows itself on the board: its own account (`Presence`) and the job each lane holds (`LaneFace`)."""

import contextlib
import os
from dataclasses import dataclass

from pool import titles
from pool.board.cell import Cell
from pool.board.lanes import LONGEST_RESULT_BYTES, NO_JOB, Lane, LaneCells, Phase
from pool.board.record import Exit, Process, State
from pool.board.start_lock import StartLock
from pool.clock import monotonic_now
from pool.jobs.job import COMPLETED, Claim, Outcome, Settlement
from pool.seat import Seat

HARD_TIMEOUT_AFTER_S = 3.0
_CLAIMED, _STARTED, _FINISHED = Phase.CLAIMED, Phase.STARTED, Phase.FINISHED


@dataclass(slots=True)
class Counts:
    """What this process has done so far."""

    completed: int = 0
    failed: int = 0
    retried: int = 0

    def add(self, outcome: Outcome) -> None:
        if outcome is COMPLETED:
            self.completed += 1
        elif outcome is Outcome.FAILED:
            self.failed += 1
        elif outcome is Outcome.RETRIED:
            self.retried += 1

    @property
    def jobs(self) -> int:
        """Attempts that ended here, hand-backs left out."""
        return self.completed + self.failed + self.retried


class Presence:
    """The worker's line on the board. Every method is a sign of life."""

    def __init__(self, seat: Seat) -> None:
        self._cell: Cell[Process] = seat.record.process
        self._set_alive_at = self._cell.setter(Process._fields.index("alive_at"), "d")
        self._set_store_call_since = self._cell.setter(Process._fields.index("store_call_since"), "d")
        self._announce_fd = seat.announce_fd
        self.counts = Counts()
        self.rss_bytes = 0
        self._exit = Exit.NONE
        self._state, self._since = State.BOOTING, monotonic_now()

    def show(self, state: State) -> None:
        """The process is in this state now; once it is retiring it stays so."""
        now = monotonic_now()
        if state is not self._state and self._state is not State.RETIRING:
            self._state, self._since = state, now
            if state is not State.BUSY:  # then the lane has named its job
                titles.show_doing(state.name.lower())
        self._write(now, 0.0)

    def enter_store(self) -> None:
        """A call to the store begins: whoever finds us stopped in it must replace us."""
        now = monotonic_now()
        self._set_store_call_since(now)
        self._set_alive_at(now)

    def touch(self) -> None:
        """A sign of life, outside any call to the store."""
        self._write(monotonic_now(), 0.0)

    def announce_ready(self) -> None:
        self.show(State.IDLE)
        self._poke()

    def announce_exit(self, why: Exit) -> None:
        """From now on our end is planned."""
        self._exit = why
        self.show(State.RETIRING)
        self._poke()

    def forget_descriptors(self) -> None:
        """The numbers we inherited may mean other files now: the parent will look by itself."""
        self._announce_fd = -1

    def _write(self, now: float, store_call_since: float) -> None:
        counts = self.counts
        self._cell.write(
            self._state, self._exit, self._since, now, store_call_since,
            counts.completed, counts.failed, counts.retried, self.rss_bytes,
        )  # fmt: skip

    def _poke(self) -> None:
        # the pipe may be full (the parent looks anyway) or gone with a killed parent
        with contextlib.suppress(OSError):
            if self._announce_fd >= 0:
                os.write(self._announce_fd, b"w")


class SharedPresence(Presence):
    """Of a worker with many lanes: their store calls wait in one line, and any that returns is a sign of life."""

    def __init__(self, seat: Seat) -> None:
        super().__init__(seat)
        self._calls = 0
        self._call_since = 0.0

    def call_begins(self) -> None:
        self._calls += 1
        if self._calls == 1:
            self._call_since = monotonic_now()
        self.touch()

    def call_ended(self) -> None:
        self._calls -= 1
        self._call_since = monotonic_now() if self._calls else 0.0
        self.touch()

    def _write(self, now: float, store_call_since: float) -> None:
        super()._write(now, self._call_since)


class LaneFace:
    """One lane's line on the board; it decides what a death costs the job."""

    def __init__(self, cells: LaneCells) -> None:
        self._cells, self._cell = cells, cells.state
        self._set_phase = cells.state.setter(Lane._fields.index("phase"), "Q")
        self._job = NO_JOB
        self._claim = self._request = 0
        self._since = 0.0
        self._names, self._type, self._queue, self._doing = ("", ""), b"", b"", ""
        self._started_at = 0.0
        self.type, self.wait_s = "", 0.0
        self.run_s: float | None = None  # of the job last held; None: it never started
        self.guard: StartLock | None = None  # held for a start when the keeper may take the job back
        self.free_until = 0.0  # before that it does not (monotonic)
        self._has_deadline = False

    def claimed(self, claim: Claim, request: int) -> None:
        """The store has handed us this job; nothing of it has run."""
        self._job = bytes.fromhex(claim.job_id.replace("-", ""))
        self._claim, self._request, self._since = claim.claim, request, monotonic_now()
        names = claim.type, claim.queue
        if names != self._names:
            self._names, self._type, self._queue = names, claim.type.encode()[:64], claim.queue.encode()[:40]
            self._doing = f"running {claim.type}"
        self._write(_CLAIMED, 0.0)
        self.type, self.run_s, self.wait_s = claim.type, None, claim.claimed_at - claim.created_at

    def started(self, timeout: float) -> bool:
        """The last act before user code. The parent kills us 3 s after the timeout. False: the job has been taken back."""
        if self.guard is None:
            return self._start(timeout)
        if monotonic_now() < self.free_until:
            self._start(timeout)
            if monotonic_now() < self.free_until:  # it was so when all could see that we start
                return True
        with self.guard.held():
            if self.is_given_up:
                self._write(_CLAIMED, 0.0)
                return False
            return self._start(timeout)

    def finished(self) -> None:
        """User code has ended; the result is in hand and no deadline may cost it."""
        if self._has_deadline:
            self._write(_STARTED, 0.0)
        self.run_s = monotonic_now() - self._started_at

    def completed(self, settlement: Settlement) -> bool:
        """Leave the whole word of the job on the board, so that it counts whatever becomes of us; False: it has no room there."""
        if settlement.outcome is not COMPLETED or settlement.children or settlement.output:
            return False
        result = settlement.result
        if result is None:
            self._cells.ending.write(settlement.started_at or 0.0, -1, b"")
        elif len(result) <= LONGEST_RESULT_BYTES and result.isascii():
            self._cells.ending.write(settlement.started_at or 0.0, len(result), result.encode())
        else:
            return False
        self._set_phase(_FINISHED)
        return True

    @property
    def is_given_up(self) -> bool:
        """Whether the job last held is no longer ours."""
        return self._cells.is_given_up(self._job, self._claim)

    def settled(self, request: int) -> None:
        """Nothing is held any more; the claim number stays as the last one held."""
        self._cell.write(Phase.NONE, self._claim, NO_JOB, monotonic_now(), 0.0, request, b"", b"")

    def _start(self, timeout: float) -> bool:
        self._started_at = monotonic_now()
        self._has_deadline = bool(timeout)
        titles.show_doing(self._doing)
        if timeout:
            self._write(_STARTED, self._started_at + timeout + HARD_TIMEOUT_AFTER_S)
        else:
            self._set_phase(_STARTED)  # all else stands there
        return True

    def _write(self, phase: Phase, hard_deadline: float) -> None:
        self._cell.write(
            phase, self._claim, self._job, self._since, hard_deadline, self._request, self._type, self._queue
        )
