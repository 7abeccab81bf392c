"""What exists once for the whole life of the supervisor: the board, the pipes that wake, the selector."""

import os
import resource
import selectors
from typing import cast

from pool.board.board import Board
from pool.board.record import Record, Role
from pool.board.start_lock import new_lock_file
from pool.identity import PoolId, ProcessMark, WorkerId, process_mark
from pool.seat import ChildSpec, Seat
from pool.supervisor.fork import Closable

MOST_DESCRIPTORS = 16_384


def raise_descriptor_limit() -> int:
    """Room for a descriptor per child; returns the soft limit before, which children get back (select() needs it low)."""
    before, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(before, min(hard, MOST_DESCRIPTORS)), hard))
    return before


class Premises:
    """Made before the first fork, so that every child shares it."""

    def __init__(self, pool: PoolId, lanes: int) -> None:
        self.pool, self.lanes = pool, lanes
        self.childrens_descriptor_limit = raise_descriptor_limit()
        self.board = Board(lanes=lanes)
        self.mark: ProcessMark = process_mark()
        # Poll, not epoll: an epoll object is shared with every child, and a descriptor closed here would live on there.
        self.selector: selectors.BaseSelector = selectors.PollSelector()
        self.announce_read, self.announce_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self.note_read, self.note_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self.lock_fd = new_lock_file()

    def seat_for(self, spec: ChildSpec, worker: WorkerId, record: Record, stack_fd: int) -> Seat:
        """The place of a child that is about to be born."""
        return Seat(
            worker=worker,
            role=spec.role,
            group=spec.group,
            board=self.board,
            record=record,
            parent=self.mark,
            announce_fd=self.announce_write,
            note_fd=self.note_read,
            stack_fd=stack_fd,
            lock_fd=self.lock_fd,
            keeper_fd=self.note_write if spec.role == Role.WORKER else -1,
        )

    def descriptors_of(self, seat: Seat) -> set[int]:
        """What a child keeps. The keeper keeps both ends of its pipe, so that it never reads an end of file there."""
        own = {seat.announce_fd, seat.stack_fd}
        if seat.role == Role.KEEPER:
            return own | {seat.lock_fd, self.note_read, self.note_write}
        return own | {seat.lock_fd, seat.keeper_fd} if seat.role == Role.WORKER else own

    def objects_with_descriptors(self) -> list[Closable]:
        """What the selector watches that is more than a number."""
        watched = (key.fileobj for key in self.selector.get_map().values())
        return [cast(Closable, thing) for thing in watched if not isinstance(thing, int)]

    def wake_keeper(self) -> None:
        """A death note stands on the board; a full pipe wakes as well."""
        try:
            os.write(self.note_write, b"n")
        except BlockingIOError:
            return

    def close(self) -> None:
        """In the parent, at its end."""
        self.selector.close()
        for fd in (self.announce_read, self.announce_write, self.note_read, self.note_write, self.lock_fd):
            os.close(fd)


def drain(fd: int) -> None:
    """Empty a non-blocking pipe."""
    try:
        while len(os.read(fd, 65536)) == 65536:
            pass
    except BlockingIOError:
        return
