"""One lock per process on the board, between a worker that starts jobs it has claimed ahead and the keeper that takes them back.

Record locks of the kernel: they end with their process, a child of it has none of them, and a stopped holder is found by
the signs of life that it does not give.

Most starts need no lock. The keeper takes nothing back from a sheaf that has been open for less than TAKEN_BACK_AFTER_S. A
worker that has written that it starts, and then reads a clock that says less than half of that, knows that whoever takes
back will see what it has written.
"""

import fcntl
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager

TAKEN_BACK_AFTER_S = 0.01
STARTS_FREELY_FOR_S = TAKEN_BACK_AFTER_S / 2
_FLOCK = struct.Struct("hhqqi")  # struct flock of 64-bit Linux: type, whence, start, length, pid


def new_lock_file() -> int:
    """A descriptor that parent, keeper and workers share: an unnamed file."""
    return os.memfd_create("start-locks", os.MFD_CLOEXEC)


class StartLock:
    """The lock of the record at `index`. Not reentrant, and one object a process and index."""

    def __init__(self, fd: int, index: int) -> None:
        self._fd = fd
        self._take = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, index, 1, 0)
        self._free = _FLOCK.pack(fcntl.F_UNLCK, os.SEEK_SET, index, 1, 0)

    def take(self) -> None:
        """Wait for it; a keeper holds it for microseconds. OSError when a job has closed the descriptor."""
        fcntl.fcntl(self._fd, fcntl.F_SETLKW, self._take)

    def take_if_free(self) -> bool:
        """Take it without waiting."""
        try:
            fcntl.fcntl(self._fd, fcntl.F_SETLK, self._take)
        except (BlockingIOError, PermissionError):  # POSIX leaves open which of the two
            return False
        return True

    def free(self) -> None:
        fcntl.fcntl(self._fd, fcntl.F_SETLK, self._free)

    @contextmanager
    def held(self) -> Iterator[None]:
        """`take`, and `free` afterwards."""
        self.take()
        try:
            yield
        finally:
            self.free()
