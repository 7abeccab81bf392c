"""The pool's processes as the keeper sees them: board records, each pinned by a pidfd so that a pid is never mistaken.

The keeper judges life by itself (a pidfd is readable once its process has ended, reaped or not), so that it can renew
only for the living and recover the dead even while the parent is stopped or gone.
"""

import contextlib
import errno
import os
import select
import signal
from collections.abc import Iterator

from pool.board.board import Board
from pool.board.record import Record, Role, State
from pool.descriptors import readable
from pool.identity import PoolId, WorkerId

WORKING_ROLES = (Role.WORKER, Role.WEB)
GONE, NOT_TO_BE_HAD = -1, -2


class Crew:
    """Who is on the board, who of them lives, and how to wake one."""

    def __init__(self, board: Board, pool: PoolId) -> None:
        self._board, self.pool = board, pool
        self._pidfds: dict[tuple[int, int], int] = {}  # (pid, generation) -> pidfd, or why there is none
        self._poll = select.poll()
        self._records: list[Record] = []
        self._workers: list[Record] = []
        self._workers_turns = self._idle_turns = -1

    def workers(self) -> Iterator[Record]:
        """Every record of a worker or web process, living or dead, whose pid is known."""
        return iter(self._working())

    def _all(self) -> list[Record]:
        """Every record that was ever taken."""
        used = self._board.used
        if used != len(self._records):
            self._records = [self._board.record(index) for index in range(used)]
        return self._records

    def _working(self) -> list[Record]:
        records = self._all()
        turns = sum([record.tenant.turn for record in records])
        if turns != self._workers_turns:
            self._workers_turns, self._workers = turns, list(filter(_is_working, records))
        return self._workers

    def living(self) -> Iterator[Record]:
        return (record for record in self.workers() if self.is_alive(record))

    def holds_anything(self) -> bool:
        """Whether anybody works on a job. At a glance while nobody has written anything since it was so."""
        workers = self._working()
        turns = sum([record.process.turn for record in workers])
        if turns == self._idle_turns:
            return False
        if any(record.process.read().state == State.BUSY for record in workers):
            return True
        self._idle_turns = turns
        return False

    def turns(self) -> int:
        """Rises with every birth, death note and settled departure."""
        return sum([record.tenant.turn + record.note.turn + record.done.turn for record in self._all()])

    def may_have_ended(self) -> bool:
        """Whether one of those whom we have looked at so far may be dead; at a glance."""
        return bool(self._poll.poll(0)) or NOT_TO_BE_HAD in self._pidfds.values()

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
        return WorkerId(self.pool, tenant.slot, tenant.generation)

    def by_worker(self) -> dict[WorkerId, Record]:
        """The same by whose they are."""
        return {self.worker_id(record): record for record in self.workers()}

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
        self._unpin((tenant.pid, tenant.generation))

    def unpin_strangers(self) -> None:
        """Whoever has left the board without us: the parent itself clears the record of a web process."""
        tenants = [record.tenant.read() for record in self._working()]
        for key in self._pidfds.keys() - {(tenant.pid, tenant.generation) for tenant in tenants}:
            self._unpin(key)

    def _unpin(self, key: tuple[int, int]) -> None:
        pidfd = self._pidfds.pop(key, GONE)
        if pidfd >= 0:
            self._poll.unregister(pidfd)
            os.close(pidfd)

    def _pin(self, record: Record) -> int:
        tenant = record.tenant.read()
        key = (tenant.pid, tenant.generation)
        if self._pidfds.get(key, NOT_TO_BE_HAD) == NOT_TO_BE_HAD:
            self._pidfds[key] = pidfd = _open_pidfd(tenant.pid)
            if pidfd >= 0:
                self._poll.register(pidfd, select.POLLIN)
        return self._pidfds[key]


def _is_working(record: Record) -> bool:
    tenant = record.tenant.read()
    return tenant.role in WORKING_ROLES and bool(tenant.pid)


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
