"""Folding the -wal into the database: how often SQLite does it by itself, and how we do it at once."""

import os
import sqlite3
from pathlib import Path

WAL_KEPT_BYTES = 16 * 2**20
_FEWEST_PAGES = 100
_FOLDED_AT_BYTES = 12 * 2**20  # a third of the syncs of the default, and the hot pages are written once
# Of a new database: a step changes a little on several pages, and each goes whole through the -wal and the caches.
PAGE_BYTES = 2048


def set_up(db: sqlite3.Connection, path: str) -> None:
    """For this connection."""
    page_bytes = db.execute("PRAGMA page_size").fetchone()[0]
    db.execute(f"PRAGMA journal_size_limit = {WAL_KEPT_BYTES}")
    db.execute(f"PRAGMA wal_autocheckpoint = {_pages_before_fold(path, page_bytes)}")


def _pages_before_fold(path: str, page_bytes: int) -> int:
    """On a small disk the -wal is folded sooner: it takes at most an eighth of the room, for its fold needs room too."""
    disk = os.statvfs(Path(path).parent)
    return max(_FEWEST_PAGES, min(_FOLDED_AT_BYTES, disk.f_bavail * disk.f_frsize // 8) // page_bytes)


def fold(db: sqlite3.Connection, busy_timeout_s: float) -> bool:
    """Under the write lock: the -wal goes into the database and is cut; False when a reader is in the way."""
    try:
        db.execute("PRAGMA busy_timeout = 0")
        return not db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
    finally:
        db.execute(f"PRAGMA busy_timeout = {int(busy_timeout_s * 1000)}")
