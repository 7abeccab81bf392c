"""`start` in its modes, and what a changed file does to a running pool."""

import signal
from collections.abc import Callable

from pool.cli.start import _modules
from tests.helpers.house import APP, House

OpenHouse = Callable[..., House]


def test_burst_ends_with_0_when_nothing_is_pending(open_house: OpenHouse) -> None:
    house = open_house(start=False, flags=("--burst",))
    ids = [house.cli_json("enqueue", "tasks.quick", f'{{"n": {n}}}')["id"] for n in range(4)]
    house.start(wait=False)
    assert house.wait_exit() == 0
    assert {house.job(job_id).status.value for job_id in ids} == {"completed"}
    assert house.pids() == []


def test_burst_ends_with_1_when_a_worker_died(open_house: OpenHouse) -> None:
    house = open_house(
        start=False, flags=("--burst",), settings="[restart]\nfirst_delay = 0.1\n[jobs]\nmax_kills = 1\n"
    )
    house.cli("enqueue", "tasks.die")
    house.start(wait=False)
    assert house.wait_exit() == 1


def test_watch_rolls_the_workers_when_a_source_file_changes(open_house: OpenHouse) -> None:
    house = open_house(flags=("--watch",))
    before = house.worker_pids()
    assert house.wait_until(house.enqueue("tasks.quick", {"n": 1}), "completed").result == "1"

    house.write_module("tasks", APP.replace("return n\n", "return n * 100\n"))

    house.wait_for(lambda: not (house.worker_pids() & before), "new workers")
    assert house.wait_until(house.enqueue("tasks.quick", {"n": 1}), "completed").result == "100"


def test_flags_beat_the_file(open_house: OpenHouse) -> None:
    house = open_house(workers=1, flags=("--workers", "3", "--queues", "high,low"))
    document = house.status()
    (group,) = document["groups"]
    assert (group["count"], group["source"], group["queues"]) == (3, "flag", ["high", "low"])


def test_a_changed_count_in_the_file_beats_the_flag(open_house: OpenHouse) -> None:
    house = open_house(workers=1, flags=("--workers", "2"))
    house.configure(workers=4)
    house.cli("reload")
    house.wait_for(lambda: len(house.workers()) == 4, "four workers")


def test_a_bad_file_changes_nothing_and_is_reported(open_house: OpenHouse) -> None:
    house = open_house(workers=2)
    before = house.worker_pids()
    house.configure(workers=2, settings="cuont = 5\n")

    done = house.cli("reload", check=False)

    assert done.returncode == 1
    assert "unknown key workers.cuont; did you mean count?" in done.stderr
    assert house.worker_pids() == before
    reload = house.status()["pool"]["last_reload"]
    assert (reload["ok"], "cuont" in reload["error"]) == (False, True)
    assert "! the last reload failed" in house.cli("status").stdout


def test_a_reload_by_signal_changes_how_the_supervisor_logs(open_house: OpenHouse) -> None:
    house = open_house(workers=1)
    house.configure(workers=1, settings='[log]\nformat = "json"\n')
    house.send_signal(signal.SIGHUP)
    house.wait_for(lambda: '"who": "supervisor"' in house.log_text(), "a line in JSON")


def test_modules_may_be_named_one_by_one_or_with_commas() -> None:
    assert _modules(["a,b", " c "]) == ["a", "b", "c"]
    assert _modules(None) is None
