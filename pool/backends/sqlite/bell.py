"""Doorbells: how an enqueue in one process wakes a worker asleep in another, without a server and without polling.

Each class of workers (queues and priority range) has a FIFO in a folder beside the database, and a note that says what
it serves. A byte in the FIFO is a flag, not a count: who wakes drains it, claims, and rings once more when work is left.
Waiters register with EPOLLEXCLUSIVE, so one byte wakes one of them. A FIFO that nobody listens to costs one failed open.
"""

import errno
import hashlib
import json
import os
import select
import stat
from collections.abc import Collection, Iterable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from pool.backends.contract import Want
from pool.backends.sqlite.files import take_after
from pool.backends.sqlite.lock import Turn
from pool.clock import wall_now
from pool.logs import log

_STALE_S = 600.0
KEEPER = Want(queues=())  # serves no queue: rung when a job is scheduled


class Ring(NamedTuple):
    """What happened that may interest a waiter: a job of this queue and priority is pending, or `scheduled`."""

    queue: str
    priority: int
    scheduled: bool = False


SCHEDULE_CHANGED = Ring("", 0, scheduled=True)


def concerns(want: Want, ring: Ring) -> bool:
    """Whether a worker of this class may want to know."""
    if ring.scheduled or not want.queues:
        return ring.scheduled and not want.queues
    if not want.min_priority <= ring.priority <= want.max_priority:
        return False
    return ring.queue not in want.reserved if want.is_any else ring.queue in want.queues


def class_name(want: Want) -> str:
    """The file name of a class: equal wants share a bell."""
    return hashlib.sha256(_note_of(want).encode()).hexdigest()[:20]


def _note_of(want: Want) -> str:
    return json.dumps([want.queues, want.min_priority, want.max_priority, want.reserved])


def _want_of(note: str) -> Want:
    queues, low, high, reserved = json.loads(note)
    return Want(tuple(queues), int(low), int(high), tuple(reserved))


class Woken(NamedTuple):
    """Why a sleep ended; neither: its time was over."""

    rung: bool
    interrupted: bool


UNDISTURBED = Woken(rung=False, interrupted=False)


class OwnBell:
    """The bell this process listens to. Open for reading and writing: it never reports an end of file."""

    def __init__(self, folder: Path, want: Want, like: os.stat_result) -> None:
        self.want = want
        self.path = _make_bell(folder, want, like)
        self.fd = os.open(self.path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        self._epoll = select.epoll()
        self._epoll.register(self.fd, select.EPOLLIN | select.EPOLLEXCLUSIVE)
        self._interrupt_fd: int | None = None

    def is_in_place(self) -> bool:
        """Whether the FIFO still has a name: a removed one is rung by nobody."""
        return os.fstat(self.fd).st_nlink > 0

    def ring(self) -> None:
        with suppress(BlockingIOError):  # full: it rings already
            os.write(self.fd, b"!")

    def sleep(self, seconds: float) -> Woken:
        """Sleep until rung (then drained), interrupted or `seconds` passed."""
        woken_by = self._epoll.poll(seconds)
        if not woken_by:
            return UNDISTURBED
        rung = self.fd in dict(woken_by)
        if rung:
            self.drain()
        return Woken(rung, len(woken_by) > rung)

    def drain(self) -> None:
        try:  # noqa: SIM105  # with each wake, when all is cold: `suppress` is three functions of Python
            os.read(self.fd, 65536)
        except BlockingIOError:
            pass

    def watch(self, interrupt_fd: int | None) -> None:
        """The next sleeps end also when this descriptor is readable."""
        if self._interrupt_fd is not None:
            with suppress(OSError):  # closed meanwhile: the kernel has forgotten it already
                self._epoll.unregister(self._interrupt_fd)
        self._interrupt_fd = interrupt_fd
        if interrupt_fd is not None:
            self._epoll.register(interrupt_fd, select.EPOLLIN)

    def close(self) -> None:
        self._epoll.close()
        os.close(self.fd)


def _make_bell(folder: Path, want: Want, like: os.stat_result) -> str:
    if not folder.exists():
        folder.mkdir(mode=0o700, exist_ok=True)
        take_after(str(folder), like, mode=_folder_mode(like))
    bell, note = folder / class_name(want), folder / f"{class_name(want)}.json"
    if not note.exists():
        fresh = folder / f".{class_name(want)}.{os.getpid()}"
        fresh.write_text(_note_of(want), encoding="utf-8")
        take_after(str(fresh), like)
        fresh.rename(note)
    if not bell.exists():
        with suppress(FileExistsError):
            os.mkfifo(bell, 0o600)
            take_after(str(bell), like)
    return str(bell)


def _folder_mode(like: os.stat_result) -> int:
    """Who may read or write the database may also enter its folder of bells."""
    readable = like.st_mode & 0o444
    return 0o700 | (like.st_mode & 0o666) | (readable >> 2)


class Bells:
    """All bells of a store, as a ringer sees them. Descriptors stay open between rings."""

    def __init__(self, database: str) -> None:
        self.folder = Path(f"{database}-bells")
        self.turn: Turn | None = None  # of the open store: tells without a system call whether other bells hang now
        self._seen: int | None = None
        self._classes: list[tuple[Want, str]] = []
        self._fds: dict[str, int] = {}

    def ring(self, rings: Collection[Ring]) -> None:
        """Wake one waiter of every class that any of these events concerns. Never raises: the poll is the fallback."""
        for want, path in self._hanging():
            if any(concerns(want, ring) for ring in rings):
                self._ring_one(path)

    def ring_classes(self, classes: Collection[Want]) -> None:
        """Wake one waiter of each of these."""
        for want, path in self._hanging() if classes else ():
            if want in classes:
                self._ring_one(path)

    def classes(self) -> list[Want]:
        """Every class of workers that has a bell, listening or not."""
        return [want for want, _ in self._hanging() if want.queues]

    def _hanging(self) -> list[tuple[Want, str]]:
        """The bells there are now, each with the class that listens."""
        stamp = self.turn.bells() if self.turn else None
        if stamp is None or stamp != self._seen:
            self.close()
            self._classes = []
            with suppress(OSError):  # the folder is taken away while we read
                self._classes = list(_read_notes(self.folder))
                self._seen = stamp
        return self._classes

    def _ring_one(self, path: str) -> None:
        fd = self._fds.get(path)
        try:
            if fd is None:
                fd = self._fds[path] = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            os.write(fd, b"!")
        except BlockingIOError:
            return  # full: it rings already
        except OSError as problem:
            self._drop(path)
            if problem.errno not in (errno.ENXIO, errno.EPIPE, errno.ENOENT):
                log.debug("bell could not be rung", problem=str(problem))

    def _drop(self, path: str) -> None:
        fd = self._fds.pop(path, None)
        if fd is not None:
            os.close(fd)

    def sweep(self) -> None:
        """Remove the bells of classes that nobody has listened to for a while."""
        with suppress(OSError):
            for note in self.folder.glob("*.json"):
                bell = note.with_suffix("")
                if _is_deserted(bell) and wall_now() - note.stat().st_mtime > _STALE_S:
                    bell.unlink(missing_ok=True)
                    note.unlink(missing_ok=True)
                    if self.turn:
                        self.turn.note_bells()

    def close(self) -> None:
        for path in list(self._fds):
            self._drop(path)
        self._seen = None


def _read_notes(folder: Path) -> Iterable[tuple[Want, str]]:
    for note in folder.glob("*.json"):
        with suppress(OSError, ValueError, TypeError):
            yield _want_of(note.read_text(encoding="utf-8")), str(note.with_suffix(""))


def _is_deserted(bell: Path) -> bool:
    try:
        if not stat.S_ISFIFO(bell.stat().st_mode):
            return False
        os.close(os.open(bell, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC))
    except FileNotFoundError:
        return True
    except OSError as problem:
        return problem.errno == errno.ENXIO
    return False
