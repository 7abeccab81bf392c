"""Workers that grow: told to leave, replaced, killed; what the kernel kills; ceilings nobody can keep."""

import contextlib
import os
import signal
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pool.supervisor import cgroup
from tests.helpers.house import House

OpenHouse = Callable[..., House]

QUICK_LOOKS = "memory_check_seconds = 0.5\n"
APP = """
import os, time
import pool
from ledger import note, noted, wait_for_gate

kept = []

def rss_mb():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") >> 20

@pool.job(max_retries=0)
def grow(mb_per_second: int, most_mb: int = 2000) -> None:
    note("start")
    taken = 0
    while taken < most_mb:
        kept.append(b"x" * (5 << 20))
        taken += 5
        note("size", mb=rss_mb())
        time.sleep(5 / mb_per_second)

@pool.job
@noted
def leak(mb: int) -> int:
    kept.append(b"x" * (mb << 20))
    return os.getpid()

@pool.job
@noted
def hold(gate: str) -> None:
    wait_for_gate(gate)
"""


@pytest.mark.parametrize("metric", ["rss", "pss", "uss"])
def test_one_that_grows_is_killed_at_the_hard_ceiling_and_its_neighbours_work_on(
    open_house: OpenHouse, metric: str
) -> None:
    ceilings = f'memory_limit = 0\nmemory_kill = "250MB"\nmemory_metric = "{metric}"\n'
    house = open_house(workers=3, app=APP, settings=ceilings + QUICK_LOOKS)
    neighbours = house.enqueue_many([("tasks.hold", {"gate": "a"})] * 2)
    before = {job: house.wait_for_worker_of(job).pid for job in neighbours}

    growing = house.enqueue("tasks.grow", {"mb_per_second": 50})
    lost = house.wait_until(growing, "failed")

    assert lost.reason == "memory_limit"
    cause = lost.attempts[-1].cause
    assert cause is not None
    assert (cause.signal, cause.text) == (9, "killed: the worker was above memory_kill")
    assert "tasks.py" in (cause.stack or "")
    sizes = [note["mb"] for note in house.notes() if note["what"] == "size"]
    assert 200 < max(sizes) < 600
    house.wait_for(lambda: len(house.worker_pids()) == 3, "three workers again")
    house.release("a")
    for job in neighbours:
        house.wait_until(job, "completed")
        assert [run.pid for run in house.runs(job)] == [before[job]]


@pytest.mark.parametrize("metric", ["rss", "uss"])
def test_one_above_the_soft_ceiling_finishes_its_job_and_leaves_when_its_heir_is_ready(
    open_house: OpenHouse, metric: str
) -> None:
    house = open_house(
        workers=4, app=APP, settings=f'memory_limit = "200MB"\nmemory_metric = "{metric}"\n' + QUICK_LOOKS
    )
    others = house.enqueue_many([("tasks.hold", {"gate": "a"})] * 3)
    before = {job: house.wait_for_worker_of(job).pid for job in others}

    leaking = house.enqueue("tasks.leak", {"mb": 250})
    victim = int(house.wait_until(leaking, "completed").result or 0)
    house.wait_for(lambda: victim not in house.worker_pids(), "the worker left")

    house.wait_for(lambda: len(house.workers()) == 4, "four workers")
    assert set(before.values()) < house.worker_pids()
    assert len(house.runs(leaking)) == 1
    heir = next(worker for worker in house.status()["workers"] if worker["pid"] not in before.values())
    assert heir["generation"] == 2
    assert heir["restarts"] == 0  # no crash, no backoff
    assert heir["last_exit"]["cause"] == "memory"
    assert heir["memory_metric"] == metric
    lines = house.log_text().splitlines()
    ready = next(n for n, line in enumerate(lines) if "child ready" in line and f"pid={heir['pid']}" in line)
    left = next(n for n, line in enumerate(lines) if "child left" in line and f"pid={victim}" in line)
    assert ready < left
    house.release("a")
    for job in others:
        house.wait_until(job, "completed")
        assert len(house.runs(job)) == 1


def test_a_ceiling_below_a_fresh_worker_is_an_error_at_the_start_and_at_a_reload(open_house: OpenHouse) -> None:
    house = open_house(workers=2, settings='memory_limit = "10MB"\n', wait=False)
    assert house.wait_exit() == 78
    assert "memory_limit is 10,000,000 bytes, but a fresh worker with your modules has" in house.log_text()

    house.configure(workers=2)
    house.start()
    before = house.worker_pids()
    house.configure(workers=2, settings='memory_limit = "10MB"\n')
    done = house.cli("reload", check=False)

    assert done.returncode == 1
    assert "a fresh worker with your modules has" in done.stderr
    assert house.worker_pids() == before


def test_a_hard_ceiling_below_a_fresh_worker_is_a_complaint_and_no_loop(open_house: OpenHouse) -> None:
    house = open_house(workers=1, settings='memory_limit = 0\nmemory_kill = "10MB"\n' + QUICK_LOOKS)
    house.wait_for(lambda: house.status()["pool"]["problems"], "a complaint")

    assert "a fresh worker already has" in house.status()["pool"]["problems"][0]
    assert house.wait_until(house.enqueue("tasks.nap", {"seconds": 1}), "completed").retry_count == 0


def test_the_pools_memory_stands_in_the_status(open_house: OpenHouse) -> None:
    house = open_house(workers=2, settings='memory_limit = "300MB"\n')
    memory = house.status()["memory"]

    assert memory["used_bytes"] > 20_000_000
    assert memory["ceilings_bytes"] == 600_000_000
    assert memory["limit_bytes"] > 0
    assert memory["limit_by"] in ("cgroup", "machine")


def test_a_kill_by_a_stranger_is_said_as_that_and_not_blamed_on_memory(open_house: OpenHouse) -> None:
    house = open_house(workers=2, settings="[restart]\nfirst_delay = 0.05\n")
    job = house.enqueue("tasks.hold")
    victim = house.wait_for_worker_of(job)

    house.kill(victim.pid, signal.SIGKILL)

    house.wait_for_worker_of(job, other_than=victim)
    cause = house.job(job).attempts[0].cause
    assert cause is not None
    assert cause.text == "signal 9 (SIGKILL), not sent by jobpool"
    slot = next(worker for worker in house.status()["workers"] if worker["slot"] == victim.slot)
    assert slot["last_exit"]["cause"] == "signal 9, not sent by jobpool"


@pytest.fixture
def small_cgroup() -> Iterator[Path]:
    """A memory cgroup of 400 MB of our own, where we may make one."""
    groups = cgroup.own_cgroups()
    if not groups or os.geteuid() != 0:
        pytest.skip("no memory controller, or not root")
    folder = groups[0].folder / f"jobpool-test-{uuid.uuid4().hex[:8]}"
    try:
        folder.mkdir()
        (folder / groups[0].kind.limit).write_text(str(400 << 20))
    except OSError as error:
        with contextlib.suppress(OSError):
            folder.rmdir()
        pytest.skip(f"no memory cgroup may be made here: {error}")
    yield folder
    with contextlib.suppress(OSError):
        folder.rmdir()


def test_out_of_memory_is_named_when_the_kernel_says_so(open_house: OpenHouse, small_cgroup: Path) -> None:
    house = open_house(
        workers=2,
        app=APP,
        settings="memory_limit = 0\n[restart]\nfirst_delay = 0.05\n",
        prefix=("sh", "-c", f'echo $$ > {small_cgroup}/cgroup.procs && exec "$@"', "sh"),
    )
    other = house.enqueue("tasks.hold", {"gate": "a"})
    bystander = house.wait_for_worker_of(other)
    before = house.pid

    lost = house.wait_until(house.enqueue("tasks.grow", {"mb_per_second": 1000}), "failed")

    cause = lost.attempts[-1].cause
    assert cause is not None
    assert (lost.reason, cause.signal) == ("worker_lost", 9)
    assert cause.text == "signal 9: killed by the kernel for want of memory"
    assert house.status()["memory"]["limit_by"] == "cgroup"
    house.release("a")
    house.wait_until(other, "completed")
    assert [run.pid for run in house.runs(other)] == [bystander.pid]
    assert house.pid == before and house.is_running
    exits = [worker["last_exit"] for worker in house.status()["workers"] if worker["last_exit"]]
    assert [exit["cause"] for exit in exits] == ["signal 9, not sent by jobpool (the kernel ran out of memory)"]
    house.stop()
