"""Schema versions. Version n becomes n + 1 by one script, all in one transaction; PRAGMA user_version says where we are."""

import sqlite3

from pool.backends.sqlite.statements import script
from pool.errors import BackendUnavailable, StoreTooNew

_APPLICATION_ID = 0x6A6F6270  # "jobp"
STEPS = ("schema.sql",)
VERSION = len(STEPS)


def is_up_to_date(db: sqlite3.Connection) -> bool:
    """Whether the schema is ours already (or newer, which `bring_up_to_date` refuses)."""
    return bool(db.execute("PRAGMA user_version").fetchone()[0] >= VERSION)


def bring_up_to_date(db: sqlite3.Connection, path: str) -> bool:
    """Make or migrate the schema, under the write lock; whether anything was done. StoreTooNew for one of a newer jobpool."""
    found = db.execute("PRAGMA user_version").fetchone()[0]
    if found > VERSION:
        raise StoreTooNew(path, found, VERSION)
    if found == VERSION:
        return False
    if found == 0 and db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
        raise BackendUnavailable(path, "it is a database of another program; change backend.url")
    db.executescript("BEGIN IMMEDIATE;\n" + "\n".join(script(step) for step in STEPS[found:]) + _STAMP)
    return True


_STAMP = f"\nPRAGMA application_id = {_APPLICATION_ID};\nPRAGMA user_version = {VERSION};\nCOMMIT;"
