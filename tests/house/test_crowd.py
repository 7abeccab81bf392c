"""Two hundred workers in ten pools on one store and one machine: they start, work, rest and stop."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.bench import footprint
from tests.helpers.house import House
from tests.helpers.servers import running
from tests.helpers.until import until

OpenHouse = Callable[..., House]
pytestmark = [pytest.mark.serial, pytest.mark.full]

POOLS, WORKERS = 10, 20
JOBS = 2_000
REST_S = 12.0  # several of everything that a keeper does


@pytest.fixture(params=["sqlite", "redis"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    with ExitStack() as stack:
        if request.param == "sqlite":
            yield f"sqlite:///{tmp_path}/jobs.db"
        else:
            yield stack.enter_context(running(request.param, maxclients=4000)).url


def keepers_ms(houses: list[House]) -> float:
    """CPU of a keeper in 20 s of rest, the mean of all."""
    roles = {str(house.pid): [house.keeper_pid()] for house in houses}
    return sum(ms for ms, _ in footprint.cpu_in(roles, REST_S).values()) / len(houses)


def test_two_hundred_workers_in_ten_pools_start_work_rest_and_stop(open_house: OpenHouse, url: str) -> None:
    houses = [open_house(workers=WORKERS, backend=url)]
    time.sleep(footprint.SETTLED_AFTER_S)
    alone_ms = keepers_ms(houses)
    houses += [open_house(workers=WORKERS, backend=url, start=False) for _ in range(POOLS - 1)]
    for house in houses[1:]:
        house.start(wait=False)
    for house in houses:
        house.wait_ready(within=180)

    first = houses[0]
    first.enqueue_many([("tasks.nap", {"seconds": 0.01})] * JOBS)
    until(lambda: first.counts()["completed"] == JOBS, "all jobs completed", within=180)
    at_work = {note["pid"] for house in houses for note in house.notes()}
    assert len(at_work) > POOLS * WORKERS / 4, "the work was spread"

    time.sleep(footprint.SETTLED_AFTER_S)
    among_many_ms = keepers_ms(houses)
    print(f"a resting keeper in 20 s: {alone_ms:.1f} ms alone, {among_many_ms:.1f} ms among {POOLS}")
    assert among_many_ms < 3 * alone_ms + 10
    assert sum(len(house.worker_pids()) for house in houses) == POOLS * WORKERS

    assert {house.stop(within=60) for house in houses} == {0}
    assert [house.pids() for house in houses] == [[]] * POOLS
