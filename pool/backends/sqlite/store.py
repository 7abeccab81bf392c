"""One open database: connection, transactions under the write lock, and what a fork or a replaced file means for it.

The connection opens on first use. It runs with synchronous=NORMAL; a transaction that must survive a power cut is
followed by fdatasync of the -wal after the write lock was released, before anything is answered. That covers all earlier
commits too, and writers of other processes do not wait for it (group commit).
"""

import ctypes
import os
import sqlite3
import threading
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from pool.backends.contract import Want
from pool.backends.sqlite import files, folding, forking
from pool.backends.sqlite.bell import Bells, OwnBell, Ring
from pool.backends.sqlite.limits import let_go
from pool.backends.sqlite.lock import WriteLock, lock_of
from pool.backends.sqlite.migrations import bring_up_to_date, is_newer, is_up_to_date
from pool.backends.sqlite.transaction import Host, Transaction
from pool.backends.sqlite.trouble import FOREIGN, NotSynced, is_spoiled_by, translated
from pool.clock import monotonic_now, wall_now
from pool.errors import BackendFull, BackendUnavailable
from pool.logs import log

T = TypeVar("T")
Stamp = tuple[int, int, int]
# A file's time stamp moves in steps of a few ms: what was read at a younger stamp may be older than the file.
_STAMP_GRAIN_NS = 50_000_000
_LOOK_AT_FILE_S = 1.0
_OPENING_WAIT_S = 0.5


class Store:
    """The database as its transactions see it. Used by one thread at a time; others wait."""

    def __init__(self, path: str, host: Host, *, create: bool, durable: bool, lock_wait: float) -> None:
        self._file = Path(path).resolve()
        self.path = str(self._file)
        self.host = host
        self.bells = Bells(self.path)
        self.stat: os.stat_result | None = None
        self._may_create, self._durable, self._lock_wait = create, durable, lock_wait
        self._was_open = False
        self._db: sqlite3.Connection | None = None
        self._lock: WriteLock | None = None
        self._wal_fd = -1
        self._pid = 0
        self._file_seen_at = 0.0
        self._was_full = False
        self._mutex = threading.RLock()
        forking.prepare(self)

    # ------------------------------------------------------------ transactions

    def write(self, step: Callable[[Transaction], T], *, durable: bool = False, ahead: Collection[Ring] = ()) -> T:
        """Run one step in one write transaction: all of it or nothing. Rings what it made eligible.

        `ahead`: what it is likely to make eligible, rung at its beginning. Who wakes stands in line for the write lock,
        which we hold, and finds what we commit. To be woken takes about as long as the step."""
        with self._mutex:
            try:
                tx, result = self._commit(step, ahead)
            except FOREIGN as problem:
                self._let_go_if_spoiled(problem)
                known = translated(problem, self.path, self._lock_wait)
                self._was_full = self._was_full or isinstance(known, BackendFull)
                raise known from problem
            if tx.rings:
                self.bells.ring(tx.rings)  # before the sync: who wakes starts while the disk works
            if durable or tx.must_sync or self._durable:
                self._sync()
        return result

    def read(self, step: Callable[[Transaction], T]) -> T:
        """Run one reading step on a single snapshot; waits for no writer."""
        with self._mutex:
            try:
                db, _ = self._ready()
                db.execute("BEGIN")
                try:
                    return step(Transaction(db.cursor(), self.host, self.bells))
                finally:
                    db.execute("COMMIT")
            except FOREIGN as problem:
                self._let_go_if_spoiled(problem)
                raise translated(problem, self.path, self._lock_wait) from problem

    def _sync(self) -> None:
        """NotSynced when the disk refuses: what was committed may or may not survive a power cut."""
        try:
            os.fdatasync(self._wal_fd)
        except OSError as problem:
            raise NotSynced(self.path, f"the disk could not be synced ({problem.strerror})") from problem

    def _commit(self, step: Callable[[Transaction], T], ahead: Collection[Ring]) -> tuple[Transaction, T]:
        db, lock = self._ready()
        cursor = db.cursor()
        lock.acquire(self._lock_wait)
        try:
            if ahead:
                self.bells.ring(ahead)
            if self._was_full:
                self._make_room(db)
            cursor.execute("BEGIN IMMEDIATE")
            tx = Transaction(cursor, self.host, self.bells)
            try:
                result = step(tx)
                if tx.freed:
                    let_go(tx)
                if tx.books:
                    tx.book()
                cursor.execute("COMMIT")
            except BaseException:
                self.host.forget_names()
                if db.in_transaction:
                    db.execute("ROLLBACK")
                raise
        finally:
            lock.release()
        return tx, result

    # ------------------------------------------------------------ the connection

    def _ready(self) -> tuple[sqlite3.Connection, WriteLock]:
        if self._pid != os.getpid():
            self.abandon()
            self._pid = os.getpid()
        if self._db is not None and monotonic_now() - self._file_seen_at > _LOOK_AT_FILE_S:
            self.look_at_file()
            if self._db is not None and is_newer(self._db):
                self.close()  # a newer jobpool has migrated it meanwhile; opening it again says so
        if self._db is None:
            self._open()
        return self._db, self._lock  # type: ignore[return-value]

    def look_at_file(self) -> None:
        """Notice that the database was deleted or replaced under us: the old handle is dropped, never closed.

        (Closing it would delete the -wal of its successor, which has the same name.)
        """
        self._file_seen_at = monotonic_now()
        if self._db is None or self.stat is None:
            return
        now = files.stat_or_none(self._file)
        if now is None or (now.st_ino, now.st_dev) != (self.stat.st_ino, self.stat.st_dev):
            self.abandon()
            log.warning("the database was deleted or replaced while in use", path=self.path, deleted=now is None)

    def _open(self) -> None:
        if self._was_open and files.stat_or_none(self.path) is None:
            raise BackendUnavailable(
                self.path, "the file was deleted while in use: put it back, or restart everything that uses it"
            )
        self.stat = files.prepare(self.path, create=self._may_create)
        self._lock = lock_of(self.path, self.stat)
        self.bells.turn = self._lock.turn
        db = self._connect(self.stat, self._lock)
        self._db, self._was_open = db, True
        self._file_seen_at = monotonic_now()

    def _connect(self, stat: os.stat_result, lock: WriteLock) -> sqlite3.Connection:
        """Opening insists on the lock only when the schema must be written: who reads a busy store need not stand in line."""
        held = lock.acquire_if_free_within(min(self._lock_wait, _OPENING_WAIT_S))
        try:
            db = self._bare_connection(stat, lock)
            try:
                if not held and not is_up_to_date(db):
                    lock.acquire(self._lock_wait)
                    held = True
                self._set_up(db)
                lock.belongs_to(stat)
            except BaseException:
                db.close()
                raise
        finally:
            if held:
                lock.release()
        return db

    def _bare_connection(self, stat: os.stat_result, lock: WriteLock) -> sqlite3.Connection:
        if lock.is_of_another(stat) and (wal := files.stat_or_none(f"{self.path}-wal")) and wal.st_size:
            raise BackendUnavailable(
                self.path,
                f"the file was replaced while the -wal of the old one is still there; delete {self.path}-wal and "
                f"{self.path}-shm, or {lock.path} if the -wal came with the new file",
            )
        return sqlite3.connect(
            self.path, timeout=self._lock_wait, isolation_level=None, check_same_thread=False, cached_statements=256
        )

    def _set_up(self, db: sqlite3.Connection) -> None:
        db.execute("PRAGMA synchronous = NORMAL")
        db.execute(f"PRAGMA page_size = {folding.PAGE_BYTES}")
        if db.execute("PRAGMA journal_mode = WAL").fetchone()[0] != "wal":
            raise BackendUnavailable(self.path, "it cannot be opened in WAL mode here; put it on a local disk")
        folding.set_up(db, self.path)
        if bring_up_to_date(db, self.path):
            db.execute("PRAGMA wal_checkpoint")
        db.execute("SELECT count(*) FROM queues").fetchone()  # makes the -wal and -shm now, under the lock
        self.host.forget_names()
        for suffix in ("-wal", "-shm"):
            files.take_after(self.path + suffix, self.stat or Path(self.path).stat())
        self._wal_fd = files.open_wal(self.path)

    def abandon(self) -> None:
        """Forget the connection without closing it: it belongs to our parent, or its file is gone."""
        if self._db is not None:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._db))  # never collected, never closed
        self._db = self._lock = None
        self._drop_wal()
        self.bells.close()
        self.host.forget_names()

    def _let_go_if_spoiled(self, problem: Exception) -> None:
        """The next call opens a connection anew; a file that was deleted meanwhile is still missed."""
        if not is_spoiled_by(problem) or self._pid != os.getpid():
            return
        self.look_at_file()
        db, lock, self._db = self._db, self._lock, None
        if db is not None and lock is not None:
            self._close_under_lock(db, lock)
        self._drop_wal()
        self.host.forget_names()

    def close(self) -> None:
        """Let go of the files; the last one out folds the -wal into the database."""
        with self._mutex:
            if self._pid != os.getpid():
                self.abandon()
            self.look_at_file()
            db, lock, self._db = self._db, self._lock, None
            if db is not None and lock is not None:
                self._close_under_lock(db, lock)
            self._drop_wal()
            self.bells.close()
            self._was_open = False

    def _close_under_lock(self, db: sqlite3.Connection, lock: WriteLock) -> None:
        held = False
        with suppress(BackendUnavailable):
            lock.acquire(self._lock_wait)
            held = True
        try:
            with suppress(sqlite3.Error):
                db.close()
        finally:
            if held:
                lock.release()

    def _drop_wal(self) -> None:
        fd, self._wal_fd = self._wal_fd, -1
        if fd >= 0:
            with suppress(OSError):
                os.close(fd)

    # ------------------------------------------------------------ upkeep of the files

    def shorten_wal(self) -> None:
        """Fold a long -wal into the database and cut it, when no reader is in the way; else try again later."""
        with self._mutex:
            try:
                db, lock = self._ready()
                if os.fstat(self._wal_fd).st_size <= folding.WAL_KEPT_BYTES:
                    return
                lock.acquire(self._lock_wait)
                try:
                    folding.fold(db, self._lock_wait)
                finally:
                    lock.release()
            except FOREIGN as problem:
                raise translated(problem, self.path, self._lock_wait) from problem

    def _make_room(self, db: sqlite3.Connection) -> None:
        """The disk was full: what room there is now goes to folding the -wal first, which gives back more than it takes.

        Otherwise a -wal that had filled the disk before its first fold would take the freed room too, for good.
        """
        with suppress(sqlite3.Error):
            self._was_full = not folding.fold(db, self._lock_wait)

    def hang_bell(self, want: Want) -> OwnBell:
        """A bell for this class of workers, in the folder beside the database."""
        bell = OwnBell(self.bells.folder, want, self.stat or Path(self.path).stat())
        if self.bells.turn:
            self.bells.turn.note_bells()
        return bell

    def settled_stamp(self) -> Stamp | None:
        """The stamp before a look into the store. None for a young one: what is committed now might not change it."""
        stamp = self.stamp()
        is_young = stamp is not None and wall_now() * 1e9 - stamp[1] < _STAMP_GRAIN_NS
        return None if is_young else stamp

    def stamp(self) -> Stamp | None:
        """Changes with every commit of anybody: the -wal's inode, time and size. None: look for yourself."""
        if self._wal_fd < 0 or self._pid != os.getpid():
            return None
        wal = os.fstat(self._wal_fd)
        return wal.st_ino, wal.st_mtime_ns, wal.st_size

    def file_sizes(self) -> tuple[int, int]:
        """Bytes of the database and of its -wal."""
        database, wal = files.stat_or_none(self.path), files.stat_or_none(f"{self.path}-wal")
        return (database.st_size if database else 0), (wal.st_size if wal else 0)

    def before_fork(self) -> None:
        """No connection may cross a fork: SQLite's own record of file locks would be wrong in the child for ever.

        (A fork from C that skips Python's hooks is noticed by pid; then the handle is only abandoned.)"""
        self._mutex.acquire()
        if self._pid == os.getpid() and self._db is not None:
            self.close()

    def after_fork(self) -> None:
        self._mutex.release()

    def after_fork_in_child(self) -> None:
        self._mutex = threading.RLock()
