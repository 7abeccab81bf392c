"""A pool with nothing to do: its workers sleep long, and still nothing waits for a ring that was lost, nor starts late."""

import signal
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.helpers.house import House
from tests.helpers.servers import running
from tests.helpers.unheard import put_unheard

OpenHouse = Callable[..., House]


@pytest.fixture(params=["sqlite", "redis"])
def backend(request: pytest.FixtureRequest) -> Iterator[str | None]:
    """None: the house's own database."""
    with ExitStack() as stack:
        yield None if request.param == "sqlite" else stack.enter_context(running(request.param)).url


def idle_house(open_house: OpenHouse, backend: str | None) -> House:
    house = open_house(workers=2, backend=backend)
    house.wait_until(house.enqueue("tasks.quick"), "completed")
    return house


def test_a_job_whose_ring_was_lost_is_found_by_the_keeper_again_and_again(
    open_house: OpenHouse, backend: str | None
) -> None:
    house = idle_house(open_house, backend)
    for _ in range(3):
        house.wait_until(put_unheard(house.store, type="tasks.quick", payload="{}"), "completed")


def test_a_job_whose_ring_was_lost_is_found_by_a_worker_while_the_keeper_stands_still(
    open_house: OpenHouse, backend: str | None
) -> None:
    house = idle_house(open_house, backend)
    keeper = house.keeper_pid()
    house.kill(keeper, signal.SIGSTOP)
    house.wait_until(put_unheard(house.store, type="tasks.quick", payload="{}"), "completed")
    assert house.keeper_pid() == keeper, "it was not replaced before"


@pytest.mark.serial
def test_delayed_jobs_start_in_time_on_an_idle_pool(open_house: OpenHouse, backend: str | None) -> None:
    """The keeper is told of a sooner time; else it would hear of it at its next look, a second later."""
    house = idle_house(open_house, backend)
    late_s = []
    for number in range(9):
        time.sleep(0.1 * number)  # at all moments of the keeper's second
        job = house.wait_until(house.enqueue("tasks.quick", delay=0.2), "completed")
        assert job.started_at is not None and job.run_at is not None
        late_s.append(job.started_at - job.run_at)
    print(f"late by {min(late_s):.3f} to {max(late_s):.3f} s, median {statistics.median(late_s):.3f}")
    assert statistics.median(late_s) < 0.3  # half a second, if it were not told
