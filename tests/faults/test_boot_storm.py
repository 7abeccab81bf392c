"""Children that all die at their boot: few births, ever fewer, and a supervisor that rests between them."""

import re
import time
from collections import Counter
from datetime import datetime

import psutil
import pytest

from tests.faults.conftest import OpenHouse
from tests.helpers.house import APP, House

WATCHED_S = 7
BORN = re.compile(r"^(\S+ \S+) .*child started role=worker slot=(\d+)")


def births(house: House, since: float) -> dict[int, list[float]]:
    """Slot → when somebody was born there, by the pool's log."""
    found: dict[int, list[float]] = {}
    for line in house.log_text().splitlines():
        if match := BORN.match(line):
            at = datetime.fromisoformat(match[1]).timestamp()
            if at >= since:
                found.setdefault(int(match[2]), []).append(at)
    return found


@pytest.mark.serial
def test_a_place_has_at_most_two_births_a_second_and_fewer_as_time_goes_by(open_house: OpenHouse) -> None:
    house = open_house(workers=4)
    house.write_module("tasks", "raise ImportError('a broken deploy')\n")
    supervisor = psutil.Process(house.pid)
    began = time.time()
    for pid in house.worker_pids():
        house.kill(pid)
    used_before = sum(supervisor.cpu_times()[:2])
    house.wait_for(lambda: time.time() > began + WATCHED_S, "some time of it")
    used = sum(supervisor.cpu_times()[:2]) - used_before

    for slot, moments in births(house, began).items():
        each_second = Counter(int(at - began) for at in moments)
        assert max(each_second.values()) <= 2, (slot, each_second)
        assert len(moments) <= 5, "1, 2, 4 seconds"
    assert used < 0.1 * WATCHED_S, f"the supervisor used {used:.2f} s"
    assert len(house.log_text()) < 100_000
    status = house.status()
    assert status["pool"]["state"] == "degraded"
    assert "a broken deploy" in str(status)

    house.write_module("tasks", APP)
    house.cli("reload", "--rolling")
    house.wait_for(lambda: house.status()["pool"]["state"] == "ready", "repaired")
    house.wait_until(house.enqueue("tasks.quick"), "completed")
