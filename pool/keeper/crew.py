"""The pool's processes as the keeper sees them: board records, each pinned by a pidfd so that a pid is never mistaken.

The keeper judges life by itself (a pidfd is readable once its process has ended, reaped or not), so that it can renew
only for the living and recover the dead even while the parent is stopped or gone.
"""

import contextlib
import os
import select
import signal
from collections.abc import Iterator

from pool.board.board import Board
from pool.board.record import Record, Role, State
from pool.identity import LaneId, PoolId, WorkerId

WORKING_ROLES = (Role.WORKER, Role.WEB)


class Crew:
    """Who is on the board, who of them lives, and how to wake one."""

    def __init__(self, board: Board, pool: PoolId) -> None:
        self._board, self._pool = board, pool
        self._pidfds: dict[tuple[int, int], int] = {}  # (pid, generation) -> pidfd; -1: gone before we could pin it

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
        return pidfd >= 0 and not select.select([pidfd], [], [], 0)[0]

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
        if pidfd >= 0:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(pidfd, signal.SIGURG)

    def kill_group_of_zombie(self, record: Record) -> None:
        """End what a dead worker left behind, while its unreaped pid still cannot be anybody else's."""
        pid = record.tenant.read().pid
        if _is_zombie(pid):
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
        if key not in self._pidfds:
            self._pidfds[key] = _open_pidfd(tenant.pid)
        return self._pidfds[key]


def was_ready(record: Record) -> bool:
    """Whether the process ever became ready, by its own account on the board."""
    return record.process.read().state != State.BOOTING


def _open_pidfd(pid: int) -> int:
    try:
        return os.pidfd_open(pid)
    except OSError:
        return -1


def _is_zombie(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return False
