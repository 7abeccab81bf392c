"""Where lines go. No output raises, none waits longer than its patience; what does not fit is dropped and counted.

The parent's patience is 0: a full pipe, a stopped terminal or a hung journald never holds it up. O_NONBLOCK is never set on
standard error itself, because everyone who shares the open file would get it too.
"""

import contextlib
import errno
import os
import select
import socket
import stat
from collections.abc import Callable
from pathlib import Path

from pool.clock import monotonic_now

_INODE_CHECK_S = 1.0

Writer = Callable[[bytes], int]


class Output:
    """Lines to a descriptor that may be slow, full, closed or gone."""

    def __init__(self, write: Writer, *, patience_s: float = 0.0, poll_fd: int = -1) -> None:
        self._write, self._patience_s, self._poll_fd = write, patience_s, poll_fd
        self._rest = b""  # the end of a line that went out in part; it goes first, so that no line is torn
        self._is_stuck = False
        self.dropped = 0

    def put(self, line: bytes) -> bool:
        """Write the line, or count it as dropped; True when it went out (its end may follow with the next)."""
        if not line:
            return True
        if not self._flush_rest():
            self.dropped += 1
            return False
        self._rest = line
        self._flush_rest()
        if len(self._rest) == len(line):
            self._rest = b""
            self.dropped += 1
            return False
        return True

    def _flush_rest(self) -> bool:
        deadline = monotonic_now() + (0.0 if self._is_stuck else self._patience_s)
        while self._rest:
            try:
                self._rest = self._rest[self._write(self._rest) :]
                self._is_stuck = False
            except BlockingIOError:
                if not self._wait_until_writable(deadline):
                    self._is_stuck = True
                    return False
            except InterruptedError:
                continue
            except OSError:  # closed, reader gone, disk full: the line is lost, the process is not
                self._is_stuck = True
                return False
        return True

    def _wait_until_writable(self, deadline: float) -> bool:
        left = deadline - monotonic_now()
        if left <= 0 or self._poll_fd < 0:
            return False
        poller = select.poll()
        poller.register(self._poll_fd, select.POLLOUT)
        return bool(poller.poll(left * 1000))

    def reopen(self) -> None:
        """Nothing to do for what is not a file."""

    def look_anew(self) -> None:
        """In a signal handler: with its next line, a file sees whether it was moved."""

    def descriptors(self) -> set[int]:
        """What a forked child must not close under us."""
        return set()

    def close(self) -> None:
        """Give back what this output opened for itself."""

    def let_go(self) -> "Output":
        """In a forked child: forget the descriptors without closing them. Returns an output for the time until `configure`."""
        return _IN_A_CHILD


_IN_A_CHILD = Output(lambda line: _write_if_writable(2, line))


class StandardError(Output):
    """Standard error, by whatever it is: socket, pipe, terminal or file."""

    def __init__(self, fd: int = 2, *, patience_s: float = 0.0) -> None:
        self._own_fd = -1
        self._socket: socket.socket | None = None
        super().__init__(self._writer_for(fd), patience_s=patience_s, poll_fd=fd)

    def _writer_for(self, fd: int) -> Writer:
        try:
            mode = os.fstat(fd).st_mode
        except OSError:
            return _nowhere
        if stat.S_ISSOCK(mode):
            return self._socket_writer(fd)
        if stat.S_ISREG(mode):
            return lambda line: os.write(fd, line)
        return self._reopened_writer(fd)

    def _socket_writer(self, fd: int) -> Writer:
        stream = socket.socket(fileno=os.dup(fd))
        self._socket = stream
        return lambda line: stream.send(line, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)

    def _reopened_writer(self, fd: int) -> Writer:
        flags = os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
        try:
            self._own_fd = os.open(f"/proc/self/fd/{fd}", flags)
        except OSError:  # another user's terminal (su), or /proc is missing
            return lambda line: _write_if_writable(fd, line)
        return lambda line: os.write(self._own_fd, line)

    def descriptors(self) -> set[int]:
        own = {self._own_fd} if self._own_fd >= 0 else set()
        return own | ({self._socket.fileno()} if self._socket is not None else set())

    def close(self) -> None:
        if self._own_fd >= 0:
            os.close(self._own_fd)
            self._own_fd = -1
        if self._socket is not None:
            self._socket.close()

    def let_go(self) -> Output:
        if self._socket is not None:
            self._socket.detach()
        return super().let_go()


def _nowhere(line: bytes) -> int:
    raise OSError(errno.EBADF, "standard error is closed")


def _write_if_writable(fd: int, line: bytes) -> int:
    """Ask before each write; a writable pipe takes at least 4096 bytes without waiting."""
    poller = select.poll()
    poller.register(fd, select.POLLOUT)
    events = poller.poll(0)
    if not events:
        raise BlockingIOError
    if events[0][1] & select.POLLNVAL:
        return _nowhere(line)
    return os.write(fd, line[:4096])


class LogFile(Output):
    """A file that several processes append to, one write per line.

    It is opened anew on `reopen` (SIGUSR1), and by itself within a second of being moved or removed.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._fd, self._inode, self._looked_at = -1, (0, 0), 0.0
        super().__init__(self._append)
        self._open()

    def _open(self) -> None:
        self._fd = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOCTTY, 0o640)
        status = os.fstat(self._fd)
        self._inode = (status.st_dev, status.st_ino)

    def _append(self, line: bytes) -> int:
        if monotonic_now() - self._looked_at > _INODE_CHECK_S:
            self._looked_at = monotonic_now()
            if self._was_moved():
                self.reopen()
        return os.write(self._fd, line)

    def _was_moved(self) -> bool:
        try:
            status = Path(self._path).stat()
        except OSError:
            return True
        return (status.st_dev, status.st_ino) != self._inode

    def look_anew(self) -> None:
        self._looked_at = 0.0

    def reopen(self) -> None:
        """Open the path again; the old file stays in use when that fails."""
        old = self._fd
        with contextlib.suppress(OSError):
            self._open()
        if self._fd != old and old >= 0:
            os.close(old)

    def descriptors(self) -> set[int]:
        return {self._fd} if self._fd >= 0 else set()

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
