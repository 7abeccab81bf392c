"""What an idle pool costs and how fast it wakes: measured on a whole pool, alone on the machine."""

import statistics
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.helpers.house import House

OpenHouse = Callable[..., House]
pytestmark = pytest.mark.serial

TICKS_PER_S = 100
IDLE_SECONDS = 20


def cpu_seconds(pids: list[int]) -> float:
    """User and system time of these processes and of their children that have ended."""
    ticks = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks += sum(int(field) for field in fields[11:15])
    return ticks / TICKS_PER_S


def test_an_idle_pool_of_eight_uses_no_cpu_to_speak_of(open_house: OpenHouse) -> None:
    house = open_house(workers=8)
    house.wait_until(house.enqueue("tasks.quick"), "completed")
    time.sleep(2)  # boot and its echoes are not idleness
    before = cpu_seconds(house.pids())

    time.sleep(IDLE_SECONDS)

    share = (cpu_seconds(house.pids()) - before) / IDLE_SECONDS
    print(f"CPU of the idle tree: {share:.3%}")
    assert share < 0.002


def test_an_idle_pool_starts_a_job_in_about_a_millisecond(open_house: OpenHouse) -> None:
    house = open_house(workers=8)
    took_ms = []
    for _ in range(200):
        time.sleep(0.03)
        began = time.clock_gettime(time.CLOCK_BOOTTIME)
        job = house.enqueue("tasks.quick")
        house.wait_until(job, "completed")
        took_ms.append((house.runs(job)[0].started - began) * 1000)

    took_ms.sort()
    median, p99 = statistics.median(took_ms), took_ms[197]
    print(f"enqueue call to first line of the job, ms: median {median:.2f}, 99th percentile {p99:.2f}")
    assert median < 2
    assert p99 < 20
