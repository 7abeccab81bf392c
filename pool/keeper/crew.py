"""The pool's processes as the keeper sees them: board records, each pinned by a pidfd so that a pid is never mistaken.

The keeper judges life by itself (a pidfd is readable once its process has ended, reaped or not), so that it can renew
only for the living and recover the dead even while the parent is stopped or gone.
"""

import contextlib
import errno
import os
import signal
from collections.abc import Iterator

from pool.board.board import Board
from pool.board.record import Record, Role, State
from pool.descriptors import readable
from pool.identity import LaneId, PoolId, WorkerId

WORKING_ROLES = (Role.WORKER, Role.WEB)
GONE, NOT_TO_BE_HAD = -1, -2


class Crew:
    """Who is on the board, who of them lives, and how to wake one."""

    def __init__(self, board: Board, pool: PoolId) -> None:
        self._board, self._pool = board, pool
        self._pidfds: dict[tuple[int, int], int] = {}  # (pid, generation) -> pidfd, or why there is none

    def workers(self) -> Iterator[Record]:
        """Every record of a worker or web process, living or dead, whose pid is known."""
        for record in self._board.taken():
            tenant = record.tenant.read()
            if tenant.role in WORKING_ROLES and tenant.pid:
                yield record

    def living(self) -> Iterator[Record]:
        return (record for record in self.workers() if self.is_alive(record))

    def holds_anything(self) -> bool:
        """Whether any lane has a job."""
        return any(record.held_lanes() for record in self.workers())

    def is_alive(self, record: Record) -> bool:
        """Whether the record's process runs; a zombie does not."""
        if record.note.read().pid:
            return False
        pidfd = self._pin(record)
        if pidfd == NOT_TO_BE_HAD:
            return _state(record.tenant.read().pid) not in ("", "Z", "X")
        return pidfd >= 0 and not readable([pidfd], 0)

    def worker_id(self, record: Record) -> WorkerId:
        tenant = record.tenant.read()
        return WorkerId(self._pool, tenant.slot, tenant.generation)

    def record_of(self, lane: LaneId) -> Record | None:
        """The record of the process that a lane of our pool belongs to, if it is still on the board."""
        for record in self.workers():
            if self.worker_id(record) == lane.worker:
                return record
        return None

    def wake(self, record: Record) -> None:
        """Make the process look at its orders; nothing when it has ended."""
        pidfd = self._pin(record)
        with contextlib.suppress(ProcessLookupError):
            if pidfd >= 0:
                signal.pidfd_send_signal(pidfd, signal.SIGURG)
            elif pidfd == NOT_TO_BE_HAD and self.is_alive(record):
                os.kill(record.tenant.read().pid, signal.SIGURG)

    def kill_group_of_zombie(self, record: Record) -> None:
        """End what a dead worker left behind, while its unreaped pid still cannot be anybody else's."""
        pid = record.tenant.read().pid
        if _state(pid) == "Z":
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, signal.SIGKILL)

    def unpin(self, record: Record) -> None:
        tenant = record.tenant.read()
        pidfd = self._pidfds.pop((tenant.pid, tenant.generation), -1)
        if pidfd >= 0:
            os.close(pidfd)

    def _pin(self, record: Record) -> int:
        tenant = record.tenant.read()
        key = (tenant.pid, tenant.generation)
        if self._pidfds.get(key, NOT_TO_BE_HAD) == NOT_TO_BE_HAD:
            self._pidfds[key] = _open_pidfd(tenant.pid)
        return self._pidfds[key]


def was_ready(record: Record) -> bool:
    """Whether the process ever became ready, by its own account on the board."""
    return record.process.read().state != State.BOOTING


def _open_pidfd(pid: int) -> int:
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:
        return GONE
    except OSError:  # no descriptor is left: that says nothing of the process
        return NOT_TO_BE_HAD


def _state(pid: int) -> str:
    """The letter of its state; empty when there is no such process."""
    try:
        with open(f"/proc/{pid}/stat", errors="replace") as stat:
            return stat.read().rpartition(")")[2].split()[0]
    except OSError as error:
        return "" if error.errno in (errno.ENOENT, errno.ESRCH) else "?"
