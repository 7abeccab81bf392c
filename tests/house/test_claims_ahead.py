"""Workers that claim several short jobs with one call, and the job among them that is not short."""

import contextlib
import itertools
import signal
from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from pool.backends.contract import JobFilter
from pool.jobs.job import Job
from pool.jobs.lifecycle import Status
from tests.helpers.house import House
from tests.helpers.servers import running
from tests.helpers.until import until

OpenHouse = Callable[..., House]

APP = '''
import ctypes, os
import pool
from ledger import note, wait_for_gate

HOLDS_THE_INTERPRETER = ctypes.PyDLL(None).system

@pool.job
def step(n: int = 0, gate: str = "", is_frozen: bool = False) -> int:
    """Short, nearly always."""
    note("start")
    if gate and is_frozen:
        HOLDS_THE_INTERPRETER(f"until test -e {os.environ['GATES']}/{gate}; do sleep 0.02; done".encode())
    elif gate:
        wait_for_gate(gate)
    note("end")
    return n

@pool.job
def least(n: int = 0) -> None:
    """As short as a job can be."""
'''
WARM_UP = 400


@pytest.fixture(params=["sqlite", "redis"])
def place(request: pytest.FixtureRequest) -> Iterator[str | None]:
    if request.param == "sqlite":
        yield None
        return
    with running("redis") as server:
        yield server.url


def fill(house: House, odd: dict[int, dict[str, object]], count: int = 1200, job_type: str = "tasks.step") -> list[str]:
    """So many steps, opened at once; those whose number is in `odd` are not short."""
    house.store.set_queue("default", paused=True)
    ids = house.enqueue_many([(job_type, {"n": n, **odd.get(n, {})}) for n in range(count)])
    house.store.set_queue("default", paused=False)
    return ids


def all_jobs(house: House) -> list[Job]:
    found, after = [], None
    while True:
        page = house.store.jobs(JobFilter(), after=after, limit=500)
        found += page.jobs
        if (after := page.after) is None:
            return found


def lanes_that_worked(house: House) -> Counter[str]:
    """Lane number → how many of the jobs' attempts ran there."""
    attempts = (attempt for job in all_jobs(house) for attempt in house.job(job.id).attempts)
    return Counter(attempt.worker.rpartition("/")[2] for attempt in attempts)


def starts(house: House) -> Counter[str]:
    return Counter(line["job"] for line in house.notes() if line["what"] == "start")


def test_short_jobs_each_run_once(open_house: OpenHouse, place: str | None) -> None:
    house = open_house(workers=2, app=APP, backend=place)
    ids = fill(house, {})
    until(lambda: house.counts()["completed"] == len(ids), "all completed")

    assert set(starts(house).values()) == {1}
    assert sum(lanes_that_worked(house).values()) == len(ids)


@pytest.mark.serial
def test_short_jobs_are_claimed_several_at_a_time(open_house: OpenHouse, place: str | None) -> None:
    """Short is a matter of milliseconds: where others use the processors too, no job may be."""
    house = open_house(workers=2, app=APP, backend=place)
    ids = fill(house, {}, job_type="tasks.least")
    until(lambda: house.counts()["completed"] == len(ids), "all completed")

    lanes = lanes_that_worked(house)
    ahead = sum(count for lane, count in lanes.items() if lane != "0")
    print(f"claimed ahead: {ahead} of {len(ids)}")
    assert sum(lanes.values()) == len(ids)
    assert ahead > len(ids) / 20


@pytest.mark.parametrize("how", ["waiting", "in native code"])
def test_nobody_waits_behind_a_job_that_takes_long(open_house: OpenHouse, place: str | None, how: str) -> None:
    """Neither those that its worker had claimed after it nor the results of those before it."""
    house = open_house(workers=2, app=APP, backend=place)
    ids = fill(house, {WARM_UP + 5: {"gate": "open", "is_frozen": how == "in native code"}})
    slow = ids[WARM_UP + 5]

    until(lambda: house.counts()["completed"] == len(ids) - 1, "all others completed")
    assert house.job(slow).status is Status.RUNNING, "they did not wait for it"
    house.release("open")
    house.wait_until(slow, "completed")
    assert set(starts(house).values()) == {1}
    assert {job.retry_count for job in all_jobs(house)} == {0}


def test_a_kill_in_the_midst_charges_only_the_job_that_ran(open_house: OpenHouse, place: str | None) -> None:
    house = open_house(workers=2, app=APP, backend=place)
    ids = fill(house, {WARM_UP: {"gate": "open"}})
    slow = ids[WARM_UP]
    victim = house.wait_for_worker_of(slow)
    house.kill(victim.pid)
    house.wait_for_worker_of(slow, other_than=victim)
    house.release("open")

    until(lambda: house.counts()["completed"] == len(ids), "all completed")
    assert {job.id: job.kill_count for job in all_jobs(house) if job.kill_count} == {slow: 1}
    assert {job: count for job, count in starts(house).items() if count > 1} == {slow: 2}


def test_kills_at_any_moment_lose_nothing_and_run_nothing_beside_itself(
    open_house: OpenHouse, place: str | None
) -> None:
    settings = "[restart]\nfirst_delay = 0.05\nmax_delay = 0.1\nhealthy_after = 0.2\n[jobs]\nmax_kills = 20\nmax_retries = 20\n"
    house = open_house(workers=3, app=APP, backend=place, settings=settings)
    ids = fill(house, {}, count=4000)
    for _ in range(6):
        victim = until(house.workers, "a worker")[0]
        before = house.counts()["completed"]
        with contextlib.suppress(ProcessLookupError):  # its slot may be between two of them
            house.kill(victim.pid)
        until(lambda before=before: house.counts()["completed"] >= min(before + 200, len(ids)), "progress")
    until(lambda: house.counts()["completed"] == len(ids), "all completed")

    runs = [house.runs(job) for job, count in starts(house).items() if count > 1]
    for run in runs:
        for first, second in itertools.pairwise(run):
            assert first.ended is None or first.ended <= second.started
    assert set(starts(house)) == set(ids)


def test_a_stop_hands_back_what_was_claimed_ahead_as_if_it_had_never_been(
    open_house: OpenHouse, place: str | None
) -> None:
    house = open_house(workers=1, app=APP, backend=place)
    ids = fill(house, {WARM_UP: {"gate": "open"}})
    house.wait_for_worker_of(ids[WARM_UP])
    house.send_signal(signal.SIGTERM)
    until(lambda: [worker.state for worker in house.workers()] == ["retiring"], "the worker told to leave")
    house.release("open")
    assert house.wait_exit() == 0

    jobs = all_jobs(house)
    assert {job.status for job in jobs} == {Status.COMPLETED, Status.PENDING}
    assert all(house.job(job.id).attempts == () for job in jobs if job.status is Status.PENDING)
    assert {job.retry_count for job in jobs} == {0}
    assert set(starts(house).values()) == {1}
    assert len(starts(house)) == sum(job.status is Status.COMPLETED for job in jobs)


def test_without_a_keeper_that_looks_nothing_is_claimed_ahead(open_house: OpenHouse) -> None:
    house = open_house(workers=2, app=APP)
    house.kill(house.keeper_pid(), signal.SIGSTOP)
    try:
        ids = fill(house, {}, count=600)
        until(lambda: house.counts()["completed"] == len(ids), "all completed")
        assert set(lanes_that_worked(house)) == {"0"}
    finally:
        house.kill(house.keeper_pid(), signal.SIGCONT)


def test_it_can_be_turned_off(open_house: OpenHouse) -> None:
    house = open_house(workers=2, app=APP, settings="claims_ahead = 0")
    ids = fill(house, {}, count=600)
    until(lambda: house.counts()["completed"] == len(ids), "all completed")
    assert set(lanes_that_worked(house)) == {"0"}


def test_jobs_that_run_at_most_once_are_never_claimed_ahead(open_house: OpenHouse, place: str | None) -> None:
    house = open_house(workers=2, app=APP, backend=place)
    fill(house, {})
    until(lambda: house.counts()["completed"] == 1200, "all completed")
    house.store.set_queue("default", paused=True)
    once = house.enqueue_many([("tasks.step", {}) for _ in range(100)], max_retries=0)
    house.store.set_queue("default", paused=False)
    until(lambda: house.counts()["completed"] == 1300, "all completed")
    assert {house.job(job).attempts[0].worker.rpartition("/")[2] for job in once} == {"0"}
