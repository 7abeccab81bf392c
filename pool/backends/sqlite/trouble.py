"""SQLite's and the system's errors in our words."""

import errno
import sqlite3

from pool.errors import BackendBusy, BackendFull, BackendUnavailable, InvalidJob, JobpoolError

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


# ValueError and the like: a stored record is not what a step of ours would have written.
UNREADABLE = (ValueError, TypeError, KeyError, IndexError, RecursionError, OverflowError)
FOREIGN = (sqlite3.Error, OSError, *UNREADABLE)


class Unreadable(BackendUnavailable):
    """A stored record is broken in a place where the step cannot do without it; nothing was changed."""


class NotSynced(BackendUnavailable):
    """The transaction is committed, but the disk could not be synced."""


# After these a connection may stay as it is for good: SQLite opens for reading what it once could not open for writing,
# and forgets no lock that it could not give back.
_SPOILING = (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_PROTOCOL)


def is_spoiled_by(problem: Exception) -> bool:
    """Whether the next call needs a connection of its own."""
    return (getattr(problem, "sqlite_errorcode", 0) or 0) & 0xFF in _SPOILING


def translated(problem: Exception, path: str, lock_wait: float) -> JobpoolError:
    """What a caller may know of this problem; the foreign error stays its cause."""
    if isinstance(problem, UnicodeEncodeError):
        return InvalidJob(f"a text with a lone surrogate cannot be stored: {problem.object!r:.100}")
    if isinstance(problem, OverflowError):
        return InvalidJob("a number beyond 64 bits cannot be stored")
    if isinstance(problem, UNREADABLE):
        return Unreadable(path, f"a stored record cannot be read ({type(problem).__name__}: {problem!s:.200})")
    if isinstance(problem, OSError):
        return _of_system(problem, path)
    code = getattr(problem, "sqlite_errorcode", 0) or 0
    kind = code & 0xFF
    if kind == sqlite3.SQLITE_FULL:
        return BackendFull(path, "the disk is full; free some space, nothing was stored")
    if kind in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return BackendBusy(path, lock_wait)
    return BackendUnavailable(path, _WORDS.get(kind, str(problem)))


_WORDS = {
    sqlite3.SQLITE_NOTADB: "it is not an SQLite database; change backend.url or move the file away",
    sqlite3.SQLITE_CORRUPT: "the database is damaged; stop the pool and restore a backup, or try `sqlite3 FILE .recover`",
    sqlite3.SQLITE_READONLY: "it may not be written by this user; check owner, group and mode of it, its -wal and -shm",
    sqlite3.SQLITE_CANTOPEN: "it cannot be opened; check owner, group and mode of it and its folder",
    sqlite3.SQLITE_PERM: "access is denied; check owner, group and mode of it and its folder",
    sqlite3.SQLITE_IOERR: "the disk reports an error (SQLite I/O error); look at the kernel log",
}


def _of_system(problem: OSError, path: str) -> BackendUnavailable:
    if problem.errno in _FULL:
        return BackendFull(path, "the disk is full; free some space, nothing was stored")
    return BackendUnavailable(problem.filename or path, (problem.strerror or str(problem)).lower())
