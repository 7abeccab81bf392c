"""A fork beside threads that open stores."""

import os
import threading
from pathlib import Path

from pool.backends.sqlite import forking
from pool.backends.sqlite.backend import SqliteBackend


class Watcher:
    """Lets another thread open a store in the midst of a fork, and sees whether it can."""

    def __init__(self, path: Path) -> None:
        self.is_open = threading.Event()
        self.thread = threading.Thread(target=self.open_store, args=(path,))
        self.was_open_at_the_fork = False

    def open_store(self, path: Path) -> None:
        store = SqliteBackend(str(path))
        store.ping()
        self.is_open.set()
        store.close()

    def before_fork(self) -> None:
        self.thread.start()
        self.was_open_at_the_fork = self.is_open.wait(0.5)

    def after_fork(self) -> None: ...
    def after_fork_in_child(self) -> None: ...


def test_no_store_opens_while_the_process_forks(tmp_path: Path) -> None:
    """It would cross the fork open: the child then believes in locks that it does not have, and writes over others."""
    watcher = Watcher(tmp_path / "jobs.db")
    forking.prepare(watcher)

    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    watcher.thread.join(60)

    assert watcher.is_open.is_set()
    assert not watcher.was_open_at_the_fork
