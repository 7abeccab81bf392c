"""A running pool and its file: storms of signals, bad files, broken deploys, more and fewer workers, long jobs."""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.house import APP, House
from tests.supervisor.stage import children_of

OpenHouse = Callable[..., House]


def births(house: House) -> int:
    """Workers forked so far."""
    return house.log_text().count("child started role=worker")


def hang_up(house: House) -> None:
    house.send_signal(signal.SIGHUP)


def wait_for_count(house: House, count: int) -> None:
    house.wait_for(
        lambda: len(house.workers()) == count and house.status()["pool"]["state"] == "ready", f"{count} workers"
    )


def test_a_storm_of_200_hangups_under_load_loses_no_job_and_ends_with_the_right_count(open_house: OpenHouse) -> None:
    house = open_house(workers=2)
    jobs = house.enqueue_many([("tasks.nap", {"seconds": 0.01})] * 300)

    for n in range(200):
        if n % 4 == 0:
            house.configure(workers=6 if n % 8 else 2)
        hang_up(house)
        time.sleep(0.01)
    house.configure(workers=3)
    hang_up(house)

    for job in jobs:
        done = house.wait_until(job, "completed")
        assert (done.retry_count, len(house.runs(job))) == (0, 1)
    wait_for_count(house, 3)
    assert house.status()["totals"]["worker_deaths"] == 0


def test_a_broken_deploy_leaves_the_old_workers_at_work_and_says_why(open_house: OpenHouse) -> None:
    house = open_house(workers=4)
    before = house.worker_pids()
    running = house.enqueue("tasks.hold", {"gate": "a"})
    house.wait_for_worker_of(running)
    house.write_module("tasks", "import no_such_library\n" + APP)

    done = house.cli("reload", "--rolling", check=False)

    assert done.returncode == 1
    assert "No module named 'no_such_library'" in done.stderr
    assert house.worker_pids() == before
    assert house.wait_until(house.enqueue("tasks.quick"), "completed")
    reload = house.status()["pool"]["last_reload"]
    assert (reload["ok"], "no_such_library" in reload["error"]) == (False, True)

    house.write_module("tasks", APP)
    house.release("a")
    assert house.cli("reload", "--rolling", "--wait").returncode == 0
    house.wait_for(lambda: not house.worker_pids() & before, "all new")
    assert len(house.runs(running)) == 1


def last_reload(house: House) -> dict[str, Any]:
    return dict(house.status()["pool"]["last_reload"])


def bad_log_path(house: House) -> None:
    house.configure(workers=2, settings='[log]\nfile = "/proc/no/such/dir/jobpool.log"\n')


BAD_FILES: dict[str, tuple[Callable[[House], object], str]] = {
    "syntax": (
        lambda house: house.config_file.write_text(house.config_file.read_text() + "[workers\ncount = 3\n"),
        "jobpool.toml",
    ),
    "unknown key": (lambda house: house.configure(workers=3, settings="cuont = 5\n"), "workers.cuont"),
    "negative": (lambda house: house.configure(workers=-1), "workers.count"),
    "not a number": (
        lambda house: house.config_file.write_text(
            house.config_file.read_text().replace("count = 2", 'count = "many"')
        ),
        "workers.count",
    ),
    "empty": (lambda house: house.config_file.write_text(""), "jobpool.toml is empty"),
    "missing": (lambda house: house.config_file.unlink(), "jobpool.toml"),
    "a directory": (lambda house: (house.config_file.unlink(), house.config_file.mkdir()), "jobpool.toml"),
    "not utf-8": (lambda house: house.config_file.write_bytes(b"\xff\xfe[workers]"), "jobpool.toml"),
    "log path": (bad_log_path, "[log] file"),
    "one good, one bad": (
        lambda house: house.configure(workers=5, settings='memory_limit = "a lot"\n'),
        "workers.memory_limit",
    ),
}


def test_no_bad_file_changes_anything_and_each_is_named(open_house: OpenHouse) -> None:
    house = open_house(workers=2)
    good = house.config_file.read_text()
    before, pids = house.status()["groups"], house.worker_pids()
    for name, (spoil, named) in BAD_FILES.items():
        spoil(house)
        failed_at = len(house.log_text())
        hang_up(house)
        house.wait_for(lambda at=failed_at: "reload failed" in house.log_text()[at:], f"{name}: a line in the log")
        said = next(line for line in house.log_text()[failed_at:].splitlines() if "reload failed" in line)
        assert named in said, (name, said)

        done, reload = house.cli("reload", "--socket", str(house.socket), check=False), last_reload(house)
        assert (done.returncode, named in done.stderr) == (1, True), (name, done.stderr)
        assert (reload["ok"], named in reload["error"]) == (False, True), name
        assert house.status()["groups"] == before, name
        assert house.worker_pids() == pids, name
        if house.config_file.is_dir():
            house.config_file.rmdir()
        house.config_file.write_text(good)

    house.config_file.write_text(good + "[workers\n")
    assert "jobpool.toml" in house.cli("reload", check=False).stderr  # the broken file still leads to the pool
    house.configure(workers=3)
    assert house.cli("reload").returncode == 0
    wait_for_count(house, 3)
    assert pids < house.worker_pids()


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_file_that_cannot_be_read_is_a_bad_file(open_house: OpenHouse) -> None:
    house = open_house(workers=1)
    house.config_file.chmod(0)
    hang_up(house)
    house.wait_for(lambda: (house.status()["pool"]["last_reload"] or {}).get("ok") is False, "the failure")


def test_growing_from_1_to_5_never_makes_more_than_5(open_house: OpenHouse) -> None:
    house = open_house(workers=1)
    others = len(children_of(house.pid)) - 1
    house.configure(workers=5)
    most = 0
    hang_up(house)
    deadline = time.monotonic() + 60
    while births(house) < 5 and time.monotonic() < deadline:
        most = max(most, len(children_of(house.pid)) - others)
        time.sleep(0.005)
    wait_for_count(house, 5)

    assert max(most, len(children_of(house.pid)) - others) == 5
    assert births(house) == 5
    for _ in range(10):
        assert house.cli("reload").returncode == 0
    assert births(house) == 5


def test_growing_and_shrinking_25_times_ends_where_the_file_says(open_house: OpenHouse) -> None:
    house = open_house(workers=2)
    for n in range(50):
        house.configure(workers=2 if n % 2 else 6)
        hang_up(house)
        time.sleep(0.04)
    house.configure(workers=4)
    hang_up(house)
    wait_for_count(house, 4)


def test_shrinking_interrupts_nothing_and_leavers_take_nothing_new(open_house: OpenHouse) -> None:
    house = open_house(workers=4)
    busy = house.enqueue_many([("tasks.hold", {"gate": "a"})] * 3)
    holders = {job: house.wait_for_worker_of(job).pid for job in busy}
    (idle,) = house.worker_pids() - set(holders.values())
    house.configure(workers=1)
    hang_up(house)
    house.wait_for(lambda: idle not in house.worker_pids(), "the idle one left first")
    waiting = house.enqueue_many([("tasks.quick", {})] * 3)
    hang_up(house)  # again, while they leave

    house.release("a")
    for job in busy:
        house.wait_until(job, "completed")
        assert [run.pid for run in house.runs(job)] == [holders[job]]
    wait_for_count(house, 1)
    for job in waiting:
        house.wait_until(job, "completed")
        assert {run.pid for run in house.runs(job)} == house.worker_pids()


def test_a_roll_with_a_long_job_in_it_answers_at_once_and_wait_waits(open_house: OpenHouse) -> None:
    house = open_house(workers=2)
    long = house.enqueue("tasks.hold", {"gate": "a"})
    holder = house.wait_for_worker_of(long)
    before = house.worker_pids()

    assert house.cli("reload", "--rolling").returncode == 0
    assert house.cli("reload", "--rolling", "--wait").returncode == 0  # a second deploy beside the same leaver

    states = {worker.pid: worker.state for worker in house.workers()}
    assert states[holder.pid] == "retiring"
    house.wait_for(lambda: len([w for w in house.workers() if w.state == "idle"]) == 2, "two new ones")
    assert len(house.runs(long)) == 1
    assert set(states) & before == {holder.pid}
    house.release("a")
    house.wait_until(long, "completed")
    house.wait_for(lambda: len(house.workers()) == 2, "the old one left")
    assert len(house.runs(long)) == 1


def test_retire_timeout_ends_the_long_job_of_a_leaver_and_it_costs_no_retry(open_house: OpenHouse) -> None:
    house = open_house(workers=1, start=False)
    text = house.config_file.read_text()
    house.config_file.write_text(text.replace("[app]", "retire_timeout = 1\n[app]", 1))
    house.start()
    long = house.enqueue("tasks.hold", {"gate": "a"})
    first = house.wait_for_worker_of(long)

    house.cli("reload", "--rolling")

    house.wait_for_worker_of(long, other_than=first)
    back = house.job(long)
    assert (back.retry_count, back.kill_count) == (0, 0)
    assert back.attempts[0].cause is not None
    assert back.attempts[0].cause.reason == "interrupted"


def test_leavers_are_at_most_twice_the_count(open_house: OpenHouse) -> None:
    house = open_house(workers=1)
    for n in range(3):
        job = house.enqueue("tasks.hold", {"gate": "a"})
        house.wait_for_worker_of(job)
        if n < 2:
            assert house.cli("reload", "--rolling").returncode == 0
    house.send_signal(signal.SIGUSR2)
    house.wait_for(lambda: house.status()["pool"]["state"] == "reloading", "a roll that must wait")
    time.sleep(1.5)  # more than a look at the board

    assert len(house.workers()) == 3
    house.release("a")
    wait_for_count(house, 1)


def test_new_code_is_at_work_after_a_roll(open_house: OpenHouse) -> None:
    house = open_house(workers=2)
    house.write_module("tasks", APP.replace("return n\n", "return n + 1000\n"))
    assert house.cli("reload", "--rolling", "--wait").returncode == 0
    house.wait_for(lambda: len(house.workers()) == 2, "no leavers")

    assert house.wait_until(house.enqueue("tasks.quick", {"n": 1}), "completed").result == "1001"
    house.wait_for(lambda: not list(Path(house.folder / "run").glob("*.new")), "nothing half written")
