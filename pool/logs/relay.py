"""The parent's way to the log file: a pipe that the keeper empties, because a disk may hang and the parent must not.

The parent holds both ends, so that a dead keeper costs nothing: lines wait in the pipe (64 KiB) for its successor, and
what does not fit is dropped and counted. The keeper opens the pipe by its place in /proc; nothing need be inherited.
"""

import contextlib
import os
import threading
from collections.abc import Callable

from pool.logs.outputs import LogFile, Output

REOPEN = b"\0\n"  # travels with the lines, none of which has a NUL
_CHUNK_BYTES = 64 * 1024


class Relay(Output):
    """Parent: lines into the pipe, never waiting. The file is opened once, so that a wrong path is known at the start."""

    def __init__(self, path: str) -> None:
        self.path = path
        LogFile(path).close()
        self.read_fd, self._write_fd = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._owner_pid = os.getpid()
        super().__init__(lambda line: os.write(self._write_fd, line))

    def reopen(self) -> None:
        """The file was moved: the keeper must let go of it even if no line comes for a long time."""
        self.put(REOPEN)

    def close(self) -> None:
        """Parent, at its end: what is still in the pipe goes to the file (here a disk may be waited for)."""
        if os.getpid() != self._owner_pid or self.read_fd < 0:
            return
        file = LogFile(self.path)
        with contextlib.suppress(BlockingIOError):
            while chunk := os.read(self.read_fd, _CHUNK_BYTES):
                file.put(chunk.replace(REOPEN, b""))
        file.close()
        os.close(self.read_fd)
        os.close(self._write_fd)
        self.read_fd = -1


def carry_lines(parent_pid: int, read_fd: int, put: Callable[[bytes], None], reopen: Callable[[], None]) -> None:
    """Keeper: bring the parent's lines to `put`, whole, and its call to `reopen`, on a thread of its own.

    OSError when the pipe cannot be opened.
    """
    fd = os.open(f"/proc/{parent_pid}/fd/{read_fd}", os.O_RDONLY | os.O_CLOEXEC)
    threading.Thread(target=_carry, args=(fd, put, reopen), name="log relay", daemon=True).start()


def _carry(fd: int, put: Callable[[bytes], None], reopen: Callable[[], None]) -> None:
    begun = b""
    while chunk := os.read(fd, _CHUNK_BYTES):
        whole, newline, begun = (begun + chunk).rpartition(b"\n")
        if REOPEN in whole + newline:
            reopen()
        put((whole + newline).replace(REOPEN, b""))
    os.close(fd)
