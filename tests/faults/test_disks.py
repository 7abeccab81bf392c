"""Whole pools whose disk may not be written: the log's is full, the database's is read-only, the database is gone."""

import subprocess
import time
from pathlib import Path

from tests.faults.conftest import OpenHouse, fill_up
from tests.helpers.house import House


def restarts(house: House) -> int:
    return sum(worker["restarts"] for worker in house.status()["workers"])


def test_a_full_disk_under_the_log_costs_lines_and_no_job(open_house: OpenHouse, small_disk: Path) -> None:
    log, filler = small_disk / "jobpool.log", small_disk / "filler"
    house = open_house(workers=2, settings=f'[log]\nlevel = "DEBUG"\nfile = "{log}"\n')
    house.wait_until(house.enqueue("tasks.quick"), "completed")
    fill_up(filler)
    size = log.stat().st_size
    jobs = house.enqueue_many([("tasks.quick", {})] * 50 + [("tasks.fail", {})] * 2)
    victim = house.workers()[0].pid

    house.wait_for(lambda: house.counts()["completed"] == 51 and house.counts()["failed"] == 2, "all jobs")
    house.kill(victim)
    house.wait_for(lambda: len(house.worker_pids() - {victim}) == 2, "its heir")
    assert log.stat().st_size - size < 8192, "the last block of a full disk and no more"

    filler.unlink()
    done = house.enqueue("tasks.fail", {"text": "after the flood"})
    house.wait_until(done, "failed")
    house.wait_for(lambda: "after the flood" in log.read_text(errors="replace"), "lines again")
    assert len(house.runs(jobs[0])) == 1
    assert house.stop() == 0


def test_a_database_on_a_disk_that_is_read_only_is_refused_in_words(open_house: OpenHouse, small_disk: Path) -> None:
    """Before anybody is forked; a disk cannot become read-only while somebody has a file open for writing."""
    house = open_house(workers=2, start=False, backend=f"sqlite:///{small_disk}/jobs.db")
    job = house.cli_json("enqueue", "tasks.quick")["id"]  # by another process: nobody has it open afterwards
    remount(small_disk, "ro")
    house.start(wait=False)
    assert house.wait_exit() == 78
    assert "jobs.db lies on a read-only file system; mount it for writing" in house.log_text()
    assert house.log_text().count("\n") == 1
    refused = house.cli("enqueue", "tasks.quick", check=False)
    assert refused.returncode and "may not be written" in refused.stderr

    remount(small_disk, "rw")
    house.start()
    assert house.wait_until(job, "completed").claim == 1


def remount(disk: Path, how: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{how}", str(disk)], check=True)


def test_a_database_that_is_taken_away_is_missed_and_not_made_anew(open_house: OpenHouse) -> None:
    house = open_house(workers=2)
    running = house.enqueue("tasks.hold")
    house.wait_for_worker_of(running)
    waiting = house.enqueue("tasks.quick", delay=600)
    files = sorted(house.folder.glob("jobs.db*"))
    (house.folder / "away").mkdir()
    for file in files:
        file.rename(house.folder / "away" / file.name)

    house.wait_for(lambda: house.status()["backend"]["ok"] is False, "the status to say so", within=60)
    house.release()
    house.wait_for(lambda: house.runs(running)[0].ended, "the end of the job")
    time.sleep(2)  # in which somebody might make a new one
    assert not (house.folder / "jobs.db").exists()
    assert house.is_running and restarts(house) == 0

    for file in files:
        (house.folder / "away" / file.name).rename(file)
    done = house.wait_until(running, "completed", within=60)
    assert (done.claim, len(house.runs(running))) == (1, 1)
    assert house.job(waiting).status.value == "scheduled"
    house.wait_until(house.enqueue("tasks.quick"), "completed")
