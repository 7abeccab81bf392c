"""Whole pools on an SQLite file that a stranger locks, and on a disk that fills up."""

import sqlite3
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest

from pool.backends.contract import JobFilter
from pool.errors import BackendUnavailable
from tests.faults.conftest import OpenHouse, fill_up
from tests.helpers.house import APP, House


def starts(house: House) -> int:
    return sum(note["what"] == "start" for note in house.notes())


@pytest.mark.timeout(300)
@pytest.mark.parametrize("rounds", [1, pytest.param(6, marks=pytest.mark.full)])
def test_a_stranger_that_locks_the_database_for_seconds_costs_time_and_nothing_else(
    open_house: OpenHouse, rounds: int
) -> None:
    """Eight workers, producers and a lister, while another program holds the write lock for 3 s."""
    house = open_house(workers=8)
    is_over = threading.Event()

    def lock_now_and_then() -> None:
        with closing(sqlite3.connect(house.folder / "jobs.db", timeout=30, isolation_level=None)) as stranger:
            for _ in range(rounds):
                stranger.execute("BEGIN IMMEDIATE")
                time.sleep(3)
                stranger.execute("ROLLBACK")
                time.sleep(1)
        is_over.set()

    jobs: list[str] = []

    def produce() -> None:
        while not is_over.is_set():
            jobs.extend(house.enqueue_many([("tasks.quick", {})] * 5))
            time.sleep(0.05)

    threads = [threading.Thread(target=lock_now_and_then), *(threading.Thread(target=produce) for _ in range(4))]
    for thread in threads:
        thread.start()
    while not is_over.is_set():
        house.store.jobs(JobFilter(), limit=100)
        time.sleep(0.02)
    for thread in threads:
        thread.join()

    house.wait_for(lambda: house.counts()["completed"] == len(jobs), "all of them")
    assert house.counts()["failed"] == 0
    assert starts(house) == len(jobs)
    assert "database is locked" not in house.log_text()
    assert all(worker["restarts"] == 0 for worker in house.status()["workers"])


HEAVY = (
    APP
    + """
@pool.job
@noted
def heavy(text: str) -> None:
    pass
"""
)


def test_a_full_disk_stops_the_pool_and_loses_nothing(open_house: OpenHouse, small_disk: Path) -> None:
    house = open_house(workers=2, app=HEAVY, backend=f"sqlite:///{small_disk}/jobs.db")
    filler = small_disk / "filler"
    filler.write_bytes(b"x" * 2_200_000)
    running = house.enqueue("tasks.hold", priority=100)
    house.wait_for_worker_of(running)
    blocked = house.enqueue("tasks.hold", {"gate": "second"}, priority=100)
    house.wait_for_worker_of(blocked)
    accepted = fill(house)
    fill_up(filler)

    lines = len(house.log_text().splitlines())
    house.release()
    house.wait_for(lambda: house.runs(running)[0].ended, "the end of the job")
    time.sleep(4)  # in which a tight loop of errors would fill the log
    assert len(house.log_text().splitlines()) - lines <= 12
    assert all(worker["restarts"] == 0 for worker in house.status()["workers"])

    filler.unlink()
    house.release("second")
    house.wait_until(running, "completed")
    house.wait_for(lambda: house.counts()["completed"] == len(accepted) + 2, "all that was accepted")
    assert len(house.runs(running)) == 1
    house.stop()
    with closing(sqlite3.connect(small_disk / "jobs.db")) as database:
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def fill(house: House) -> list[str]:
    """Enqueue large jobs until the store refuses one."""
    accepted: list[str] = []
    with pytest.raises(BackendUnavailable):
        for _ in range(200):
            accepted += house.enqueue_many([("tasks.heavy", {"text": "x" * 20_000})] * 2)
    return accepted


LARGE_WAL_BYTES = 64_000_000


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "count, payload_bytes", [(1_200, 60_000), pytest.param(100_000, 300, marks=pytest.mark.full)], ids=["some", "many"]
)
def test_a_reader_that_holds_on_to_its_snapshot_is_reported_and_costs_no_job(
    open_house: OpenHouse, count: int, payload_bytes: int
) -> None:
    """SQLite cannot cut the -wal while somebody reads what was before: it grows, it is said, and it is cut afterwards."""
    house = open_house(workers=2, app=HEAVY, settings='[log]\nlevel = "WARNING"\n')
    house.wait_until(house.enqueue("tasks.quick"), "completed")
    wal = house.folder / "jobs.db-wal"
    with closing(sqlite3.connect(f"file:{house.folder}/jobs.db?mode=ro", uri=True)) as reader:
        reader.execute("BEGIN")
        before = reader.execute("SELECT count(*) FROM jobs").fetchone()
        for _ in range(count // 100):
            house.enqueue_many([("tasks.heavy", {"text": "x" * payload_bytes})] * 100)
        house.wait_for(lambda: house.counts()["completed"] == count + 1, "all jobs", within=800)
        assert reader.execute("SELECT count(*) FROM jobs").fetchone() == before, "it sees its own moment"
        assert wal.stat().st_size > LARGE_WAL_BYTES
        said = house.cli("doctor", check=False).stdout
        assert "the write-ahead log has" in said and "fuser -v" in said
    house.wait_for(lambda: wal.stat().st_size <= 17_000_000, "the -wal is cut", within=60)
    assert starts(house) == count + 1
