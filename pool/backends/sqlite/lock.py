"""The queue for the write lock: processes stand in line here before they say BEGIN IMMEDIATE.

Ownership is an fcntl record lock on a file beside the database: the kernel frees it when its process ends, and a child
does not inherit it. Waiting is a futex on a counter in that file, which wakes who has waited longest; where there is no
futex, and after the death of a holder, a waiter looks again by itself after a few milliseconds.
One waiter at a time watches the counter for a moment before it sleeps: most steps are shorter than to be woken takes. While
it watches, nobody else is woken; who sleeps looks again soon enough to have its share.
An fcntl lock is lost when *any* descriptor of its file is closed, so a process has one `WriteLock` per file (`lock_of`).
"""

import ctypes
import errno
import fcntl
import mmap
import os
import platform
import struct
import threading
import time
from contextlib import suppress
from pathlib import Path

from pool.backends.sqlite import files
from pool.clock import monotonic_now
from pool.errors import BackendBusy

_FLOCK = struct.Struct("hhqqi4x")  # struct flock of 64-bit Linux: type, whence, start, length, pid
_SYS_FUTEX = {"x86_64": 202, "aarch64": 98, "riscv64": 98, "ppc64le": 221, "s390x": 238}.get(platform.machine())
_FUTEX_WAIT, _FUTEX_WAKE = 0, 1
_TAKE_IF_FREE = fcntl.LOCK_EX | fcntl.LOCK_NB
_OWNER, _OWNER_AT = struct.Struct("=QQQ"), 64
_SUFFIX = "-lock"
_LOOK_AGAIN_S = 0.01
_POLL_S = 0.0005
_WATCH_US = 150
_WORD = 0xFFFFFFFF
_HAS_COMPANY = len(os.sched_getaffinity(0)) > 1  # on a lone processor the holder cannot go on while we watch


class _Timespec(ctypes.Structure):
    _fields_ = [("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long)]


class Turn:
    """Four words that all processes map: a stamp that changes with each release, whether somebody may be asleep in the
    line, until when (in microseconds) somebody watches the stamp, and a stamp that changes with the bells that hang."""

    def __init__(self, fd: int) -> None:
        self._map = mmap.mmap(fd, mmap.PAGESIZE)
        self._words = memoryview(self._map).cast("I")
        self._address = ctypes.c_void_p(ctypes.addressof(ctypes.c_uint32.from_buffer(self._map)))
        self._syscall = ctypes.CDLL(None, use_errno=True).syscall

    def now(self) -> int:
        return self._words[0]

    def bells(self) -> int:
        return self._words[3]

    def note_bells(self) -> None:
        """A bell was hung up or taken down: who rings looks which there are."""
        self._words[3] = time.monotonic_ns() & _WORD

    @property
    def written_for(self) -> tuple[int, int, int]:
        """Inode and device of the database this file was last used with, and its own inode then."""
        inode, device, own = _OWNER.unpack_from(self._map, _OWNER_AT)
        return inode, device, own

    @written_for.setter
    def written_for(self, marks: tuple[int, int, int]) -> None:
        _OWNER.pack_into(self._map, _OWNER_AT, *marks)

    def mark_waiting(self) -> None:
        self._words[1] = 1

    def pass_on(self) -> None:
        """Called after a release: change the stamp, so that nobody starts to wait on the old one, and wake who waits longest.

        Two processes may do this at once, so the stamp is drawn from a clock and not counted up."""
        words, now = self._words, time.monotonic_ns()
        words[0] = now & _WORD
        if words[1] and not self._is_watched(now):
            words[1] = 0
            if _SYS_FUTEX:
                self._syscall(_SYS_FUTEX, self._address, _FUTEX_WAKE, 1, None, None, 0)

    def watch(self, seen: int) -> bool:
        """Look out for another stamp for a moment, awake, unless somebody does so already; whether it came."""
        words, now = self._words, time.monotonic_ns()
        if not _HAS_COMPANY or self._is_watched(now):
            return False
        until = now + _WATCH_US * 1000
        words[2] = until // 1000 & _WORD
        while words[0] == seen and time.monotonic_ns() < until:
            pass
        words[2] = 0
        return words[0] != seen

    def _is_watched(self, now: int) -> bool:
        """A mark that its maker did not live to take away says nothing after its moment."""
        return 0 < self._words[2] - (now // 1000 & _WORD) <= _WATCH_US

    def wait(self, seen: int, seconds: float) -> None:
        """Sleep until the stamp is no longer `seen`, at most `seconds`."""
        if not _SYS_FUTEX:
            threading.Event().wait(min(seconds, _POLL_S))
            return
        span = _Timespec(0, int(min(seconds, _LOOK_AGAIN_S) * 1e9))
        self._syscall(_SYS_FUTEX, self._address, _FUTEX_WAIT, ctypes.c_uint32(seen), ctypes.byref(span), None, 0)


class WriteLock:
    """One process's place in the queue of one store, shared by its threads."""

    def __init__(self, path: str, like: os.stat_result) -> None:
        self.path, self._database = path, path.removesuffix(_SUFFIX)
        self._pid = os.getpid()
        self._mutex = threading.Lock()
        self._fd = open_side_file(path, like)
        self.turn = Turn(self._fd)

    @property
    def is_ours(self) -> bool:
        """Whether this object was made by this very process and its file is still the one at the path."""
        if self._pid != os.getpid():
            return False
        try:
            return Path(self.path).stat().st_ino == os.fstat(self._fd).st_ino
        except OSError:
            return False

    def acquire(self, seconds: float) -> None:
        """Hold the lock; BackendBusy with the holder's pid after `seconds`."""
        if not self._mutex.acquire(timeout=seconds):
            raise BackendBusy(self._database, seconds, os.getpid())
        try:
            if not self._try():
                self._stand_in_line(seconds)
        except BaseException:  # a lock call may also fail for good (ENOLCK, EIO): our own threads must not wait for it
            self._mutex.release()
            raise

    def acquire_if_free_within(self, seconds: float) -> bool:
        """Hold the lock if that is possible soon; whether it is held now."""
        try:
            self.acquire(seconds)
        except BackendBusy:
            return False
        return True

    def release(self) -> None:
        try:
            fcntl.lockf(self._fd, fcntl.LOCK_UN)
            self.turn.pass_on()
        finally:
            self._mutex.release()

    def is_of_another(self, database: os.stat_result) -> bool:
        """Whether this file stayed while the database at its side was replaced (a copied lock file tells nothing)."""
        inode, device, own = self.turn.written_for
        return own == os.fstat(self._fd).st_ino and (inode, device) != (database.st_ino, database.st_dev)

    def belongs_to(self, database: os.stat_result) -> None:
        self.turn.written_for = (database.st_ino, database.st_dev, os.fstat(self._fd).st_ino)

    def holder_pid(self) -> int:
        """The pid that holds the lock now; 0 when nobody does or it is not visible from here."""
        asked = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        kind, _, _, _, pid = _FLOCK.unpack(fcntl.fcntl(self._fd, fcntl.F_GETLK, asked))
        return max(pid, 0) if kind != fcntl.F_UNLCK else 0

    def _try(self) -> bool:
        try:
            fcntl.lockf(self._fd, _TAKE_IF_FREE)
        except OSError as problem:
            if problem.errno in (errno.EACCES, errno.EAGAIN):
                return False
            raise
        return True

    def _stand_in_line(self, seconds: float) -> None:
        deadline, has_slept = monotonic_now() + seconds, False
        while True:
            seen = self.turn.now()
            if self._try():
                if has_slept:
                    self.turn.mark_waiting()  # others may still stand behind us
                return
            if self.turn.watch(seen):
                continue
            self.turn.mark_waiting()
            left = deadline - monotonic_now()
            if left <= 0:
                raise BackendBusy(self._database, seconds, self.holder_pid())
            self.turn.wait(seen, left)
            has_slept = True


def open_side_file(path: str, like: os.stat_result) -> int:
    """Open or make a file beside the database. It appears with the database's owner, group and mode in one step."""
    flags = os.O_RDWR | os.O_CLOEXEC
    with suppress(FileNotFoundError):
        return os.open(path, flags)
    fresh = f"{path}.{os.getpid()}.{threading.get_ident()}"
    os.close(os.open(fresh, flags | os.O_CREAT, 0o600))
    try:
        os.truncate(fresh, mmap.PAGESIZE)
        files.take_after(fresh, like)
        with suppress(FileExistsError):
            os.link(fresh, path)
    finally:
        Path(fresh).unlink()
    return os.open(path, flags)


_locks: dict[str, WriteLock] = {}
_locks_guard = threading.Lock()


def lock_of(database: str, like: os.stat_result) -> WriteLock:
    """This process's lock for that database. Old ones are kept for ever: closing them would free a live lock."""
    path = database + _SUFFIX
    with _locks_guard:
        lock = _locks.get(path)
        if lock is None or not lock.is_ours:
            if lock is not None:
                _outdated.append(lock)
            lock = _locks[path] = WriteLock(path, like)
        return lock


_outdated: list[WriteLock] = []


def _forget_after_fork() -> None:
    global _locks_guard
    _locks_guard = threading.Lock()
    _outdated.extend(_locks.values())
    _locks.clear()


os.register_at_fork(after_in_child=_forget_after_fork)
