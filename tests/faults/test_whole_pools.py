"""Public faults of comparable systems, as accidents of whole pools on both backends (the table is in README.md)."""

import contextlib
import json
import os
import random
import signal
import sqlite3
import time
from collections import Counter

import pytest

from pool.errors import IllegalMove
from tests.faults.conftest import QUICK_RESTARTS, OpenHouse, with_setting
from tests.helpers.house import APP, House

DELAY_S = 2.5
IN_HAND = 32  # claims_ahead and the job itself: short jobs that have ended may not have been told yet


def boottime() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def starts(*houses: House) -> Counter[str]:
    """How often each job began, by the ledgers (two houses may share one)."""
    files = {house.ledger: house for house in houses}
    return Counter(note["job"] for house in files.values() for note in house.notes() if note["what"] == "start")


def wait_for_all(house: House, jobs: list[str], status: str = "completed") -> None:
    house.wait_for(lambda: house.counts()[status] >= len(jobs), f"{len(jobs)} jobs {status}")


def test_a_delay_longer_than_the_lease_hands_out_each_job_once(on_each_store: OpenHouse) -> None:
    houses = [on_each_store(workers=2, start=False) for _ in range(2)]
    for house in houses:
        with_setting(house, "backend", "lease = 2").start()
    asked = time.time()
    jobs = houses[0].enqueue_many([("tasks.quick", {})] * 20, delay=DELAY_S)

    wait_for_all(houses[0], jobs)

    for job in map(houses[0].job, jobs):
        assert (job.claim, job.retry_count) == (1, 0)
        assert job.started_at is not None
        assert DELAY_S - 0.05 <= job.started_at - asked < DELAY_S + 20


def test_two_pools_never_take_the_same_job(on_each_store: OpenHouse) -> None:
    houses = [on_each_store(workers=4) for _ in range(2)]
    jobs = houses[0].enqueue_many([("tasks.quick", {"n": n}) for n in range(2000)])

    wait_for_all(houses[0], jobs)

    assert starts(*houses) == Counter(jobs)
    assert not any("ERROR" in house.log_text() for house in houses)


def test_planned_restarts_never_count_against_a_long_job(open_house: OpenHouse) -> None:
    house = with_setting(open_house(workers=1, start=False), "pool", "stop_timeout = 0.3").start()
    job = house.enqueue("tasks.hold", max_retries=2)
    for run in range(4):
        house.wait_for(lambda run=run: len(house.runs(job)) == run + 1, "the next run")
        assert house.stop() == 0
        assert house.job(job).status.value == "pending"
        house.start()
    house.release()
    done = house.wait_until(job, "completed")
    assert (done.retry_count, done.kill_count) == (0, 0)


@pytest.mark.parametrize("down", ["shortly", "past the due time"])
def test_a_delayed_job_starts_in_time_though_the_pool_was_away(on_each_store: OpenHouse, down: str) -> None:
    house = on_each_store(workers=2)
    asked = time.time()
    jobs = house.enqueue_many([("tasks.quick", {})] * 10, delay=DELAY_S)
    assert house.stop() == 0
    if down == "past the due time":
        house.wait_for(lambda: time.time() > asked + DELAY_S + 0.5, "the due time")
    house.start()
    due = max(asked + DELAY_S, time.time())

    wait_for_all(house, jobs)

    late = [(house.job(job).started_at or 0) - due for job in jobs]
    assert max(late) < 20
    assert starts(house) == Counter(jobs)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("rounds", [1, pytest.param(20, marks=pytest.mark.full)])
def test_a_kill_in_the_middle_of_a_promotion_loses_and_doubles_nothing(on_each_store: OpenHouse, rounds: int) -> None:
    house = on_each_store(workers=2)
    for number in range(rounds):
        due = time.time() + 1.0
        jobs = house.enqueue_many([("tasks.quick", {})] * 1000, run_at=due)
        house.wait_for(lambda due=due: time.time() > due, "the due time")
        time.sleep(random.Random(number).uniform(0, 0.15))  # a random moment of the promotion is the point
        house.send_signal_to_all(signal.SIGKILL)
        house.wait_exit()
        house.start()
        house.wait_for(lambda jobs=jobs: not (starts(house).keys() ^ jobs) & set(jobs), "every job started")
        house.wait_for(lambda: not any(house.counts()[s] for s in ("pending", "scheduled", "running")), "all over")
        began = starts(house)
        again = [began[job] for job in jobs if began[job] > 1]
        assert len(again) <= 2 * IN_HAND, "only what was in a killed worker's hand may start again"
        assert set(again) <= {2}


def test_a_cancel_that_was_granted_prevents_the_run(on_each_store: OpenHouse) -> None:
    """Cancel races claim and promotion for five hundred jobs."""
    house = on_each_store(workers=4)
    some = house.enqueue_many([("tasks.nap", {"seconds": 0.005})] * 250)
    later = house.enqueue_many([("tasks.nap", {"seconds": 0.005})] * 250, delay=0.5)
    granted, refused = set(), set()
    for job in random.Random(5).sample(some + later, 500):
        with contextlib.suppress(IllegalMove):
            (granted if house.store.cancel(job).status.value == "cancelled" else refused).add(job)

    house.wait_for(lambda: not any(house.counts()[s] for s in ("pending", "scheduled", "running")), "all over")

    assert granted, "nothing was cancelled in time"
    assert not granted & starts(house).keys()
    assert all(house.job(job).status.value == "cancelled" for job in granted)
    assert all(house.job(job).status.value in ("completed", "cancelled") for job in some + later)


NATIVE = (
    APP
    + '''
import ctypes

@pool.job
@noted
def native(seconds: float) -> None:
    """Holds the interpreter: no other thread of this process runs."""
    ctypes.PyDLL(None).usleep(int(seconds * 1_000_000))
'''
)


def test_native_code_longer_than_the_lease_runs_once(on_each_store: OpenHouse) -> None:
    houses = [on_each_store(workers=1, app=NATIVE, start=False) for _ in range(2)]
    for house in houses:
        with_setting(house, "backend", "lease = 3").start()
    job = houses[0].enqueue("tasks.native", {"seconds": 5})
    done = houses[0].wait_until(job, "completed")
    assert (done.claim, done.retry_count, len(done.attempts)) == (1, 0, 1)
    assert starts(*houses) == Counter([job])


CLOCKWORK = (
    APP
    + """
@pool.job(max_retries=0)
@noted
def tick(entry: int) -> None:
    pass
"""
)
ENTRIES = "".join(
    f'[[schedule]]\nname = "entry-{n}"\ntype = "tasks.tick"\nevery = 1\npayload = {{ entry = {n} }}\n' for n in range(5)
)


def test_three_pools_with_five_entries_run_each_tick_once(on_each_store: OpenHouse) -> None:
    began = int(time.time())
    houses = [on_each_store(workers=1, app=CLOCKWORK, settings=ENTRIES) for _ in range(3)]

    def runs_of_each() -> list[int]:
        fired = Counter(json.loads(houses[0].job(job).payload)["entry"] for job in starts(*houses))
        return [fired[entry] for entry in range(5)]

    houses[0].wait_for(lambda: min(runs_of_each()) >= 3, "three ticks of each")
    for house in houses:
        assert house.stop() == 0

    ran = starts(*houses)
    assert set(ran.values()) == {1}
    fired = Counter(json.loads(houses[0].job(job).payload)["entry"] for job in ran)
    for entry in range(5):
        last = houses[0].store.last_tick(f"entry-{entry}")
        assert last is not None
        assert 3 <= fired[entry] <= last - began, "at most one job for each second that has passed"


CATCHING_UP = "".join(
    f'[[schedule]]\nname = "{name}"\ntype = "tasks.tick"\nevery = 1\ncatch_up = "{name}"\npayload = {{ entry = {n} }}\n'
    for n, name in enumerate(("run_once", "skip"))
)


def test_a_pool_that_was_away_for_five_ticks_runs_one_of_them_or_none_and_says_so(on_each_store: OpenHouse) -> None:
    house = on_each_store(workers=2, app=CLOCKWORK, settings=CATCHING_UP)
    house.wait_for(lambda: len(starts(house)) >= 2, "the first ticks")
    assert house.stop() == 0
    down_at, before = time.time(), set(starts(house))
    house.wait_for(lambda: time.time() > down_at + 6, "five ticks and more without a pool")
    up_at = int(time.time())
    house.start()
    house.wait_for(lambda: len(starts(house)) >= len(before) + 4, "ticks again")
    assert house.stop() == 0
    ticks_since = int(time.time()) - up_at

    fresh = [house.job(job) for job in starts(house).keys() - before]
    ran = Counter(json.loads(job.payload)["entry"] for job in fresh)
    assert ran[0] <= ticks_since + 2, "one run for all that were missed"
    assert ran[1] <= ticks_since + 1, "none of them (the last one may have been due just now)"
    missed = [line for line in house.log_text().splitlines() if "schedule ticks missed" in line]
    assert any("entry=run_once" in line for line in missed) and any("entry=skip" in line for line in missed)


@pytest.mark.full
@pytest.mark.serial
@pytest.mark.timeout(200)
def test_three_pools_with_five_entries_over_ten_ticks_make_exactly_fifty_runs(on_each_store: OpenHouse) -> None:
    entries = ENTRIES.replace("every = 1", "every = 3")
    houses = [on_each_store(workers=2, app=CLOCKWORK, settings=entries) for _ in range(3)]
    first = (int(time.time()) // 3 + 2) * 3
    houses[0].wait_for(lambda: time.time() > first + 9 * 3 + 1.5, "ten ticks", within=90)
    for house in houses:
        assert house.stop() == 0

    jobs = [houses[0].job(job) for job, count in starts(*houses).items() if count == 1]
    assert len(jobs) == sum(starts(*houses).values())
    of_the_ten = [job for job in jobs if first - 0.5 <= job.created_at < first + 9 * 3 + 1.5]
    assert Counter(json.loads(job.payload)["entry"] for job in of_the_ten) == dict.fromkeys(range(5), 10)


def test_a_lone_pid_namespace_loses_nothing_and_its_stranded_job_comes_back(on_each_store: OpenHouse) -> None:
    """As PID 1 of a container; after a full kill the next one has the same host name and the same pids."""
    if os.geteuid():
        pytest.skip("needs the right to make a pid namespace")
    alone = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")
    house = with_setting(on_each_store(workers=2, start=False, prefix=alone), "backend", "lease = 2").start()
    jobs = house.enqueue_many([("tasks.quick", {})] * 20)
    wait_for_all(house, jobs)
    assert starts(house) == Counter(jobs)
    assert all(worker["restarts"] == 0 for worker in house.status()["workers"])
    stranded = house.enqueue("tasks.hold")
    house.wait_for(lambda: len(house.runs(stranded)) == 1, "the start")

    os.kill(house.pid, signal.SIGKILL)
    house.wait_exit()
    house.wait_for(lambda: house.pids() == [], "nobody left")
    killed_at = boottime()
    house.start()

    house.wait_for(lambda: len(house.runs(stranded)) == 2, "the second run")
    assert boottime() - killed_at < 40  # a lease is 60 s where nothing is said
    house.release()
    assert house.wait_until(stranded, "completed").retry_count == 0


RECYCLING = (
    APP
    + """
import random
MINE = random.Random()

@pool.job
@noted
def draw() -> list:
    return [os.getpid(), random.random(), MINE.random()]
"""
)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("count", [60, pytest.param(1000, marks=pytest.mark.full)])
def test_recycling_after_each_job_hangs_nobody_and_repeats_no_random_number(
    on_each_store: OpenHouse, count: int
) -> None:
    """Each worker runs one job and is replaced, while everything is logged: as many forks as jobs."""
    house = on_each_store(
        workers=4, app=RECYCLING, settings='max_jobs = 1\n[log]\nlevel = "DEBUG"\n' + QUICK_RESTARTS, start=False
    ).start()
    jobs = house.enqueue_many([("tasks.draw", {})] * count)

    house.wait_for(lambda: house.counts()["completed"] >= len(jobs), "all of them", within=500)

    drawn = [json.loads(house.job(job).result or "") for job in jobs]
    for column in range(3):
        assert len({row[column] for row in drawn}) == count
    assert starts(house) == Counter(jobs)
    assert "disk I/O error" not in house.log_text()
    house.wait_for(lambda: {worker.state for worker in house.workers()} == {"idle"}, "everyone idle")
    house.wait_for(lambda: len(house.pids()) == 6, "supervisor, keeper and four workers")
    supervisor_sockets = {link for link in links(house.pid) if link.startswith("socket:")}
    for worker in house.workers():
        found = links(worker.pid)
        assert not supervisor_sockets & set(found), "a child has a listener of the parent"
        assert len(found) < 30
    if house.url.startswith("sqlite"):
        assert house.stop() == 0
        with contextlib.closing(sqlite3.connect(house.folder / "jobs.db")) as database:
            assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def links(pid: int) -> list[str]:
    """What the descriptors of a process are."""
    found = []
    for fd in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(OSError):
            found.append(os.readlink(f"/proc/{pid}/fd/{fd}"))
    return found


DAEMON = (
    APP
    + '''
import subprocess, sys

@pool.job
@noted
def leave_a_daemon() -> int:
    """Its own session, and our standard descriptors."""
    code = "import os, time; os.setsid(); time.sleep(300)"
    return subprocess.Popen([sys.executable, "-c", code]).pid
'''
)


def test_a_daemon_that_a_job_left_with_our_pipes_keeps_nobody_from_leaving(open_house: OpenHouse) -> None:
    house = open_house(workers=1, app=DAEMON)
    job = house.enqueue("tasks.leave_a_daemon")
    house.wait_until(job, "completed")
    told_at = boottime()
    assert house.stop() == 0
    assert boottime() - told_at < 25  # a stop may take 30 s
