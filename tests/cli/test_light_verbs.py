"""Probes must be cheap: what `health` loads and how long it takes as a whole process."""

import subprocess
import sys
import time
from collections.abc import Callable

import pytest

from pool.cli.light import own_frames
from tests.helpers.house import House
from tests.house.test_measures import MARGIN, slowness

HEAVY = ("typer", "rich", "pydantic", "redis", "loguru", "sqlite3", "asyncio")


@pytest.mark.parametrize("verb", ["health", "stop", "reload"])
def test_a_light_verb_loads_nothing_heavy(open_house: Callable[..., House], verb: str) -> None:
    house = open_house(start=False)
    code = (
        "import sys\nfrom pool.__main__ import main\n"
        f"code = main([{verb!r}, '--config', {str(house.config_file)!r}])\n"
        f"print(code, [name for name in {HEAVY!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.split(maxsplit=1) == ["69", "[]\n"]


@pytest.mark.serial
def test_a_probe_costs_less_than_150_ms_as_a_whole_process(open_house: Callable[..., House]) -> None:
    house = open_house(workers=1)
    command = [sys.executable, "-m", "pool", "health", "--config", str(house.config_file)]
    seconds = []
    for _ in range(7):
        began = time.perf_counter()
        assert subprocess.run(command, capture_output=True).returncode == 0
        seconds.append(time.perf_counter() - began)
    assert min(seconds) < 0.15 * slowness() * MARGIN


def test_a_stack_ends_where_the_worker_begins() -> None:
    stack = "Thread 1:\n  File a in job\n  File loop in run_worker\n  File fork in _run"
    assert own_frames(stack) == "Thread 1:\n  File a in job"
    assert own_frames("Thread 1:\n  File a in job") == "Thread 1:\n  File a in job"
