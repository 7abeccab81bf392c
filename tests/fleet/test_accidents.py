"""Two pools on one server while workers, a whole pool and the server itself are killed: what was accepted ends once."""

import contextlib
import os
import random
import signal
import time
from collections import Counter
from pathlib import Path

import pytest

from pool.jobs.lifecycle import Reason, Status
from tests.fleet.fleet import Fleet, FleetHouse, fleet
from tests.helpers.servers import DEFAULT_FLAVOUR, Server, running

APP = """
import pool, time
from ledger import noted

@pool.job(max_retries=50, max_kills=50)
@noted
def work(seconds: float = 0.0) -> None:
    time.sleep(seconds)
"""
LEASE_S = 4.0


def storm(group: Fleet, server: Server, rng: random.Random, total: int) -> None:
    """Random workers are killed all the time; the server goes twice and one whole pool once, at fixed shares of the work."""
    marks = [(0.2, _restart_server), (0.45, _kill_pool), (0.7, _restart_server)]
    while True:
        done = _completed(group)
        if marks and done >= marks[0][0] * total:
            print(f"{marks[0][1].__name__} at {done} of {total}")
            marks.pop(0)[1](group, server)
            continue
        if not marks and done >= 0.9 * total:
            break
        _kill_somebody(rng.choice(group.pools), rng)
        time.sleep(rng.uniform(0.05, 0.4))


def _completed(group: Fleet) -> int:
    return sum(queue.completed + queue.failed for queue in group.first.store.queues())


def _kill_somebody(house: FleetHouse, rng: random.Random) -> None:
    with contextlib.suppress(Exception):
        pids = sorted(house.worker_pids())
        if pids:
            os.kill(rng.choice(pids), signal.SIGKILL)


def _restart_server(group: Fleet, server: Server) -> None:
    server.kill()
    time.sleep(0.5)
    server.start()


def _kill_pool(group: Fleet, server: Server) -> None:
    """All its processes at once; it starts again later, as a new incarnation."""
    house = group.pools[1]
    house.send_signal_to_all(signal.SIGKILL)
    house.wait_exit()
    time.sleep(1.0)
    house.start(wait=False)


def accidents(total: int, workers: int, tmp_path: Path) -> None:
    seed = int(os.environ.get("JOBPOOL_FLEET_SEED", "7"))
    print(f"seed {seed}")
    with (
        running(DEFAULT_FLAVOUR, aof=True, fsync="always") as server,
        fleet(server.url, tmp_path / "shared", workers=workers, lease=LEASE_S, app=APP) as group,
    ):
        began = time.monotonic()
        once = group.fill(total // 10, "tasks.work", {"seconds": 0.01}, max_retries=0)
        often = group.fill(total - len(once), "tasks.work", {"seconds": 0.01}, max_retries=50, max_kills=50)
        storm(group, server, random.Random(seed), total)
        group.until_over()
        jobs, starts = group.jobs(), group.starts()
    print(
        f"{time.monotonic() - began:.0f} s, {sum(starts.values())} runs",
        Counter(job.status.value for job in jobs.values()),
    )

    assert jobs.keys() == once | often
    assert {jobs[job].status for job in often} == {Status.COMPLETED}
    assert all(starts[job] >= 1 for job in often)
    assert max(starts[job] for job in once) == 1
    for job in once:
        assert jobs[job].status in (Status.COMPLETED, Status.FAILED)
        assert jobs[job].status is Status.COMPLETED or jobs[job].reason in (Reason.WORKER_LOST, Reason.INTERRUPTED)
        assert starts[job] == 1 or jobs[job].status is Status.FAILED


@pytest.mark.timeout(240)
def test_two_pools_lose_nothing_to_kills_and_restarts(tmp_path: Path) -> None:
    accidents(3_000, 2, tmp_path)


@pytest.mark.full
@pytest.mark.timeout(900)
def test_two_pools_of_four_lose_none_of_twenty_thousand(tmp_path: Path) -> None:
    accidents(20_000, 4, tmp_path)
