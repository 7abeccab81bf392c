"""The wall clock jumps by an hour while a pool works: no deadline moves, no lease is taken. (libfaketime, monotonic untouched.)"""

import datetime
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.helpers.house import APP, House

OpenHouse = Callable[..., House]

LIBRARY = next(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"), None)
HOUR_S = 3600

TIMED_APP = (
    # time.sleep is clock_nanosleep until a moment of CLOCK_MONOTONIC, which libfaketime 0.9.10 answers with EINVAL
    "import select, time\ntime.sleep = lambda seconds: select.select([], [], [], seconds)\n"
    + APP
    + """
@pool.job(timeout=4, max_retries=0)
@noted
def overstay() -> None:
    time.sleep(60)
"""
)


class MovedClock:
    """Offers every process of a house a wall clock that the test can move."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "clock"
        self.move(0)

    def move(self, seconds: int) -> None:
        part = self.file.with_suffix(".new")
        part.write_text(f"{seconds:+d}\n")
        part.replace(self.file)

    @property
    def environ(self) -> dict[str, str]:
        assert LIBRARY is not None
        return {
            "LD_PRELOAD": str(LIBRARY),
            "FAKETIME_TIMESTAMP_FILE": str(self.file),
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_RESET": "1",
        }


def boottime() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def pools_hour_offset(house: House) -> float:
    """How far the pool's wall clock is from ours: by the date of the supervisor's last look at the store."""
    since = house.status()["backend"]["checked_at"]
    return datetime.datetime.fromisoformat(since).timestamp() - time.time()


@pytest.mark.skipif(LIBRARY is None, reason="needs libfaketime")
@pytest.mark.parametrize("jump_s", [HOUR_S, -HOUR_S], ids=["an hour on", "an hour back"])
def test_a_jump_of_the_wall_clock_changes_no_deadline_and_steals_no_lease(
    open_house: OpenHouse, tmp_path: Path, jump_s: int
) -> None:
    clock = MovedClock(tmp_path)
    house = open_house(workers=3, app=TIMED_APP, start=False, environ=clock.environ)
    text = house.config_file.read_text()
    text = text.replace("[app]", "stop_timeout = 3\n[app]", 1).replace("[workers]", "lease = 4\n[workers]", 1)
    house.config_file.write_text(text)
    house.start()
    long = house.enqueue("tasks.hold", {"gate": "a"})
    holder = house.wait_for_worker_of(long)
    timed = house.enqueue("tasks.overstay")
    house.wait_for_worker_of(timed)
    before = house.worker_pids()

    clock.move(jump_s)
    house.wait_for(lambda: abs(pools_hour_offset(house) - jump_s) < 60, "the pool's clock jumped")

    assert house.wait_until(timed, "failed").reason == "timeout"
    (run,) = house.runs(timed)
    assert run.ended is not None
    assert 3.8 < run.ended - run.started < 30  # an hour would be wrong
    time.sleep(max(0.0, run.started + 9 - boottime()))  # two leases and more
    assert [run.pid for run in house.runs(long)] == [holder.pid]
    assert house.worker_pids() == before  # nobody was taken for silent
    assert house.status()["pool"]["state"] == "ready"
    assert house.wait_until(house.enqueue("tasks.quick"), "completed")

    told_at = boottime()
    assert house.stop() == 0
    assert 2.5 < boottime() - told_at < 60
    back = house.job(long)
    assert (back.status.value, back.retry_count) == ("pending", 0)


def test_the_library_is_there_in_ci() -> None:
    assert LIBRARY is not None or not os.environ.get("CI"), "apt-get install libfaketime"
