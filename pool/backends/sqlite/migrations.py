"""Schema versions. Step n makes version n + 1 of version n; PRAGMA user_version says where a database is.

From the first release on schema.sql (version 1) is frozen; each change of it is a file of its own, added to STEPS.
All steps that a database lacks are taken in one transaction, under the write lock: a program that is killed in the
midst of them leaves the old version, and of many that open at once one migrates.
"""

import sqlite3
from collections.abc import Iterator, Sequence

from pool.backends.sqlite.statements import script
from pool.errors import BackendUnavailable, StoreTooNew

_APPLICATION_ID = 0x6A6F6270  # "jobp"
STEPS = (script("schema.sql"),)
VERSION = len(STEPS)


def is_up_to_date(db: sqlite3.Connection, steps: Sequence[str] = STEPS) -> bool:
    """Whether the schema is ours already (or newer, which `bring_up_to_date` refuses)."""
    return version_of(db) >= len(steps)


def version_of(db: sqlite3.Connection) -> int:
    return int(db.execute("PRAGMA user_version").fetchone()[0])


def is_newer(db: sqlite3.Connection, steps: Sequence[str] = STEPS) -> bool:
    """Whether it is a database of a newer jobpool."""
    return version_of(db) > len(steps)


def bring_up_to_date(db: sqlite3.Connection, path: str, steps: Sequence[str] = STEPS) -> bool:
    """Make or migrate the schema, under the write lock; whether anything was done. StoreTooNew for one of a newer jobpool."""
    if is_newer(db, steps):
        raise StoreTooNew(path, version_of(db), len(steps))
    if is_up_to_date(db, steps):
        return False
    db.execute("BEGIN IMMEDIATE")
    try:
        found = version_of(db)  # again: whoever does not know of our lock may have been quicker
        if found == 0 and db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            raise BackendUnavailable(path, "it is a database of another program; change backend.url")
        for statement in (each for step in steps[found:] for each in _statements(step)):
            db.execute(statement)
        db.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
        db.execute(f"PRAGMA user_version = {len(steps)}")
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise
    return True


def _statements(text: str) -> Iterator[str]:
    """One after the other; `executescript` would commit before the first."""
    begun: list[str] = []
    for line in text.splitlines():
        begun.append(line)
        if sqlite3.complete_statement("\n".join(begun)):
            yield "\n".join(begun)
            begun.clear()
    if any(line.strip() and not line.lstrip().startswith("--") for line in begun):
        raise ValueError(f"a statement has no end: {begun[-1]!r}")
