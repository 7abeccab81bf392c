"""A fork while the store is open: the child never touches its parent's handle, and both go on."""

import os
import sqlite3
import threading
from pathlib import Path

import pytest

from tests.helpers.builders import ANYTHING, Hand, drain, put
from tests.helpers.stores import in_child, open_sqlite


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "jobpool.db")


def _open_files(path: str) -> set[str]:
    found = set()
    for fd in os.listdir("/proc/self/fd"):
        try:
            found.add(os.readlink(f"/proc/self/fd/{fd}"))
        except FileNotFoundError:
            continue
    return {name for name in found if name in (path, f"{path}-wal", f"{path}-shm")}


def test_no_descriptor_of_the_database_crosses_a_fork(path: str) -> None:
    store = open_sqlite(path)
    put(store)
    assert _open_files(path)
    assert in_child(lambda: _open_files(path)).result() == set()
    put(store)


def test_parent_and_child_go_on_with_the_same_object(path: str) -> None:
    store = open_sqlite(path)
    put(store)

    def work() -> int:
        for _ in range(50):
            put(store)
        return len(drain(Hand(store)))

    child = in_child(work)
    for _ in range(50):
        put(store)
    done = child.result()
    assert done + len(drain(Hand(store))) == 101
    assert _integrity(path) == "ok"


def test_a_fork_that_python_does_not_see_only_abandons_the_handle(path: str) -> None:
    """A server written in C forks: the hooks do not run, the pid tells."""
    store = open_sqlite(path)
    put(store)
    connection = store._store._db
    store._store._pid = os.getpid() + 1  # what the child of such a fork sees
    put(store)
    assert store._store._db is not connection
    assert connection is not None
    assert connection.execute("SELECT count(*) FROM jobs").fetchone()[0] == 2, "not closed, only left alone"


def test_forks_in_one_thread_while_others_work(path: str) -> None:
    store = open_sqlite(path)
    put(store)
    stop = threading.Event()
    counts: list[int] = []

    def work() -> None:
        count = 0
        while not stop.is_set():
            put(store)
            count += 1
        counts.append(count)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    forked = sum(in_child(lambda: put(store) and 1).result() for _ in range(20))
    stop.set()
    for thread in threads:
        thread.join()
    assert forked == 20
    assert store.queues()[0].pending == 1 + 20 + sum(counts)
    assert _integrity(path) == "ok"


def test_a_child_that_waits_does_not_listen_on_its_parents_bell(path: str) -> None:
    store = open_sqlite(path)
    store.wait(ANYTHING, 0)

    def nap() -> list[str]:
        store.wait(ANYTHING, 0)
        return drain(Hand(store))

    assert in_child(nap).result() == []
    put(store)
    assert len(drain(Hand(store))) == 1


def test_many_short_lived_children_leave_a_sound_database(path: str) -> None:
    store = open_sqlite(path)
    for _ in range(40):
        put(store)
        assert len(in_child(lambda: drain(Hand(store))).result()) == 1
    assert _integrity(path) == "ok"
    assert store.statistics().completed == 40


def _integrity(path: str) -> str:
    check = lambda: str(sqlite3.connect(path).execute("PRAGMA integrity_check").fetchone()[0])  # noqa: E731
    return in_child(check).result()
