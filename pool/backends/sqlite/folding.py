"""Folding the -wal into the database: how often SQLite does it by itself, and how we do it at once."""

import os
import sqlite3
from pathlib import Path

WAL_KEPT_BYTES = 16 * 2**20
_FEWEST_PAGES = 100
_USUAL_PAGES = 3000  # 12 MB: a third of the syncs of the default, and the hot pages are written once
_PAGE_BYTES = 4096


def set_up(db: sqlite3.Connection, path: str) -> None:
    """For this connection."""
    db.execute(f"PRAGMA journal_size_limit = {WAL_KEPT_BYTES}")
    db.execute(f"PRAGMA wal_autocheckpoint = {_pages_before_fold(path)}")


def _pages_before_fold(path: str) -> int:
    """On a small disk the -wal is folded sooner: it takes at most an eighth of the room, for its fold needs room too."""
    disk = os.statvfs(Path(path).parent)
    return max(_FEWEST_PAGES, min(_USUAL_PAGES, disk.f_bavail * disk.f_frsize // 8 // _PAGE_BYTES))


def fold(db: sqlite3.Connection, busy_timeout_s: float) -> bool:
    """Under the write lock: the -wal goes into the database and is cut; False when a reader is in the way."""
    try:
        db.execute("PRAGMA busy_timeout = 0")
        return not db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
    finally:
        db.execute(f"PRAGMA busy_timeout = {int(busy_timeout_s * 1000)}")
