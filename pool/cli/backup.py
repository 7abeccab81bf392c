"""`backup FILE`: a consistent copy of the SQLite database, written beside its place and renamed when whole."""

import os
import sqlite3
from pathlib import Path

from pool.backends.opening import sqlite_path
from pool.cli.failures import Refused
from pool.cli.store import NoStore
from pool.config import Loaded
from pool.errors import BackendUnavailable

PAGES_AT_ONCE = 1000


def copy_database(loaded: Loaded, target: Path) -> int:
    """Bytes written. Never overwrites; the copy has the mode of a private file."""
    source = database_of(loaded)
    if target.exists():
        raise Refused(f"{target} exists already; choose another name")
    partial = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        _copy(source, partial)
        os.link(partial, target)  # fails, and overwrites nothing, when the name was taken meanwhile
        return target.stat().st_size
    except OSError as error:
        raise Refused(f"{target} cannot be written: {error.strerror}") from error
    finally:
        partial.unlink(missing_ok=True)


def database_of(loaded: Loaded) -> Path:
    """The database file of this configuration; Refused when the backend is not SQLite."""
    url = loaded.config.backend.url
    if not url.startswith("sqlite:"):
        raise Refused("backup copies SQLite databases; for Redis use its own means (BGSAVE, a replica)")
    path = Path(sqlite_path(url))
    if not path.exists():
        raise NoStore(path)
    return path


def _copy(source: Path, partial: Path) -> None:
    os.close(os.open(partial, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    original = sqlite3.connect(f"file:{source}?mode=ro", uri=True, timeout=30)
    copy = sqlite3.connect(partial)
    try:
        original.backup(copy, pages=PAGES_AT_ONCE)
        copy.execute("PRAGMA journal_mode = DELETE")
    except sqlite3.Error as error:
        raise BackendUnavailable(f"sqlite:///{source}", str(error)) from error
    finally:
        copy.close()
        original.close()
    with partial.open("rb") as written:
        os.fsync(written.fileno())
