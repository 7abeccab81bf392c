"""Stops, kills and slow moments around claim and acknowledgement, in whole pools on both backends."""

import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.faults.conftest import QUICK_RESTARTS, OpenHouse, with_setting
from tests.faults.proxy import Proxy
from tests.faults.tracing import require_strace
from tests.helpers.house import House
from tests.helpers.servers import Server

SLOW_S = 2


def boottime() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def starts(*houses: House) -> Counter[str]:
    files = {house.ledger: house for house in houses}
    return Counter(note["job"] for house in files.values() for note in house.notes() if note["what"] == "start")


def nothing_live(house: House) -> bool:
    return not any(house.counts()[name] for name in ("pending", "scheduled", "running"))


@pytest.mark.timeout(900)
@pytest.mark.parametrize("rounds", [3, pytest.param(100, marks=pytest.mark.full)])
def test_a_stop_between_claim_and_start_loses_no_job(on_each_store: OpenHouse, rounds: int) -> None:
    house = on_each_store(workers=2, start=False)
    chance = random.Random(rounds)
    jobs: list[str] = []
    for _ in range(rounds):
        house.start()
        jobs += house.enqueue_many([("tasks.nap", {"seconds": 0.005})] * 20)
        time.sleep(chance.uniform(0, 0.3))  # the moment is the point
        assert house.stop() == 0
        assert house.counts()["running"] == 0, "a stopped pool holds nothing"
    house.start()
    house.wait_for(lambda: nothing_live(house), "all over")
    assert house.counts()["completed"] == len(jobs)
    assert starts(house) == Counter(jobs), "handed back is not started"
    assert {house.job(job).retry_count for job in jobs} == {0}


def test_after_the_stop_signal_nothing_starts(on_each_store: OpenHouse) -> None:
    house = on_each_store(workers=2)
    jobs = house.enqueue_many([("tasks.nap", {"seconds": 0.5})] * 50)
    house.wait_for(lambda: len(starts(house)) >= 4, "some to have started")
    told_at = boottime()
    assert house.stop() == 0
    ended_at = boottime()

    begun = [note["at"] for note in house.notes() if note["what"] == "start"]
    assert max(begun) < told_at + 5, "all of them would take twelve seconds"
    assert ended_at - told_at < 10
    assert house.counts()["pending"] == len(jobs) - len(begun)
    assert (house.counts()["running"], house.counts()["completed"]) == (0, len(begun))


def test_a_kill_in_mid_job_costs_one_retry_and_other_jobs_nothing(on_each_store: OpenHouse) -> None:
    house = on_each_store(workers=2, settings=QUICK_RESTARTS)
    job, neighbour = house.enqueue("tasks.hold", max_retries=2), house.enqueue("tasks.hold", {"gate": "other"})
    holder = house.wait_for_worker_of(job)
    house.wait_for_worker_of(neighbour)
    killed_at = boottime()
    house.kill(holder.pid)

    house.wait_for(lambda: len(house.runs(job)) == 2, "the second run")
    house.release()
    house.release("other")
    done = house.wait_until(job, "completed")
    house.wait_until(neighbour, "completed")

    assert house.runs(job)[1].started - killed_at < 30, "at once, not after a lease of 60 s"
    assert (len(house.runs(job)), len(house.runs(neighbour))) == (2, 1)
    assert [(each.outcome.value, each.cause.signal if each.cause else None) for each in done.attempts] == [
        ("lost", 9),
        ("completed", None),
    ]
    restarted = house.wait_for(lambda: [w for w in house.status()["workers"] if w["restarts"]], "an heir")
    assert [worker["last_exit"]["signal"] for worker in restarted] == [9]


def test_a_whole_pool_killed_and_started_again_runs_its_jobs_within_the_lease(on_each_store: OpenHouse) -> None:
    house = with_setting(on_each_store(workers=2, start=False), "backend", "lease = 2").start()
    jobs = [house.enqueue("tasks.hold") for _ in range(2)]
    for job in jobs:
        house.wait_for_worker_of(job)
    house.send_signal_to_all(signal.SIGKILL)
    house.wait_exit()
    killed_at = boottime()
    house.start()
    house.release()
    for job in jobs:
        assert house.wait_until(job, "completed").retry_count == 0
        assert len(house.runs(job)) == 2
        assert house.runs(job)[1].started - killed_at < 30


# ---------------------------------------------------------------- a slow claim is no abandoned job


@contextmanager
def slow_link_claims(house: House, link: Proxy) -> Iterator[None]:
    link.delay_s = SLOW_S / 3  # there and back, and sooner than an answer is given up
    try:
        yield
    finally:
        link.delay_s = 0


@contextmanager
def slow_disk_claims(house: House) -> Iterator[None]:
    """The first write of each worker's next claim takes two seconds to return."""
    tracers = []
    for pid in house.worker_pids():
        words = ["strace", "-f", "-e", "trace=pwrite64", "-e", f"inject=pwrite64:delay_exit={SLOW_S}s:when=1",
                 "-o", "/dev/null", "-p", str(pid)]  # fmt: skip
        tracer = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
        assert tracer.stderr is not None
        while "attached" not in tracer.stderr.readline():
            assert tracer.poll() is None
        tracers.append(tracer)
    try:
        yield
    finally:
        for tracer in tracers:
            tracer.send_signal(signal.SIGINT)
            tracer.communicate(timeout=30)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("rounds", [1, pytest.param(20, marks=pytest.mark.full)])
@pytest.mark.parametrize("kind", ["sqlite", "redis"])
def test_a_claim_that_takes_seconds_is_no_abandoned_job(
    open_house: OpenHouse, server: Server, kind: str, rounds: int
) -> None:
    """Two pools with a short lease; one of them is slow between "popped" and "started"."""
    with Proxy(server.port) as link:
        url = f"redis://127.0.0.1:{link.port}/0" if kind == "redis" else None
        slow = with_setting(open_house(workers=1, start=False, backend=url), "backend", "lease = 5").start()
        other_url = server.url if kind == "redis" else slow.url
        other = open_house(workers=1, start=False, backend=other_url, environ={"LEDGER": str(slow.ledger)})
        with_setting(other, "backend", "lease = 5").start()
        jobs: list[str] = []
        for _ in range(rounds):
            if kind == "sqlite":
                require_strace()
            with slow_link_claims(slow, link) if kind == "redis" else slow_disk_claims(slow):
                jobs += other.enqueue_many([("tasks.nap", {"seconds": 0.1})] * 40)
                other.wait_for(lambda: nothing_live(other), "all of them over", within=60)
        for job in map(other.job, jobs):
            assert (job.status.value, job.retry_count, len(job.attempts)) == ("completed", 0, 1)
        assert starts(slow, other) == Counter(jobs)
        assert {note["pid"] for note in slow.notes()} > other.worker_pids(), "the slow one had some of them"
