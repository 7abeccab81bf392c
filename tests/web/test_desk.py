"""The threads between the event loop and the store."""

import asyncio
from pathlib import Path

from pool.backends.sqlite.backend import SqliteBackend
from pool.web.desk import StoreDesk
from tests.helpers.until import until


def test_what_the_threads_opened_is_closed_when_they_end(tmp_path: Path) -> None:
    """Not only forgotten: the last one out folds the -wal into the database, under the write lock."""
    store = SqliteBackend(str(tmp_path / "jobs.db"))
    desk = StoreDesk(lambda: store)
    asyncio.run(desk.ask(lambda store: store.ping()))
    wal = tmp_path / "jobs.db-wal"
    assert wal.exists()

    desk.close()

    until(lambda: not wal.exists(), "the store is closed")
