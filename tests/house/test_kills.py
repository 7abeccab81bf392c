"""Workers that are killed, and what becomes of their jobs."""

import signal
import statistics
import subprocess
import time
from collections.abc import Callable

import pytest

from tests.helpers.house import House, Worker

OpenHouse = Callable[..., House]

QUICK_RESTARTS = "[restart]\nfirst_delay = 0.05\nmax_delay = 0.1\nhealthy_after = 1\n"


def seconds_to_next_run(house: House, job: str, victim: Worker) -> float:
    """From the kill to the job's first line on another worker."""
    killed_at = time.clock_gettime(time.CLOCK_BOOTTIME)
    house.kill(victim.pid)
    house.wait_for_worker_of(job, other_than=victim)
    return house.runs(job)[-1].started - killed_at


@pytest.mark.serial
def test_a_killed_workers_job_runs_elsewhere_within_a_tenth_of_a_second(open_house: OpenHouse) -> None:
    house = open_house(workers=4, settings=QUICK_RESTARTS)
    took = []
    for n in range(20):
        job = house.enqueue("tasks.hold", {"gate": f"g{n}"})
        victim = house.wait_for_worker_of(job)
        took.append(seconds_to_next_run(house, job, victim))
        house.release(f"g{n}")
        done = house.wait_until(job, "completed")
        assert done.attempts[0].cause is not None
        assert done.attempts[0].cause.signal == 9
        house.wait_for(lambda: len(house.worker_pids()) == 4, "four workers again")

    print(f"kill to next start, ms: median {statistics.median(took) * 1000:.1f}, worst {max(took) * 1000:.1f}")
    assert statistics.median(took) < 0.1


def test_the_slot_of_a_killed_worker_is_filled_again_after_its_backoff(open_house: OpenHouse) -> None:
    house = open_house(workers=2, settings="[restart]\nfirst_delay = 1\n")
    victim = house.workers()[0]

    house.kill(victim.pid)

    heir = house.wait_for(
        lambda: next((w for w in house.workers() if w.slot == victim.slot and w.pid != victim.pid), None), "an heir"
    )
    assert heir is not None
    assert heir.generation == victim.generation + 1
    told = next(w for w in house.status()["workers"] if w["slot"] == victim.slot)
    assert told["restarts"] == 1
    assert told["last_exit"]["signal"] == 9


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGABRT, signal.SIGKILL], ids=lambda n: n.name)
def test_one_dead_worker_disturbs_no_other(open_house: OpenHouse, number: int) -> None:
    house = open_house(workers=3, settings=QUICK_RESTARTS)
    jobs = house.enqueue_many([("tasks.hold", {"gate": "all"})] * 3)
    holders = {job: house.wait_for_worker_of(job) for job in jobs}
    victim = holders[jobs[0]]

    house.kill(victim.pid, number)
    house.wait_for_worker_of(jobs[0], other_than=victim)

    assert {holders[job].pid for job in jobs[1:]} <= house.worker_pids()
    house.release("all")
    for job in jobs:
        house.wait_until(job, "completed")
    assert [len(house.runs(job)) for job in jobs] == [2, 1, 1]


EXITING_APP = """
import os, sys
import pool

@pool.job(max_retries=1)
def leave(how: str, code: int) -> None:
    os._exit(code) if how == "os" else sys.exit(code)
"""


def test_a_job_that_ends_its_process_with_code_0_is_a_death_and_one_that_calls_sys_exit_is_a_failure(
    open_house: OpenHouse,
) -> None:
    house = open_house(workers=1, app=EXITING_APP, settings=QUICK_RESTARTS + "[jobs.backoff]\nfirst = 0.1\n")
    hard = house.enqueue("tasks.leave", {"how": "os", "code": 0})
    soft = house.enqueue("tasks.leave", {"how": "sys", "code": 0})

    assert house.wait_until(hard, "failed").reason == "worker_lost"
    assert house.wait_until(soft, "failed").reason == "retries_exhausted"
    cause = house.job(hard).attempts[0].cause
    assert cause is not None
    assert cause.exit_code == 0


def test_what_a_job_started_ends_with_its_worker(open_house: OpenHouse) -> None:
    app = """
import subprocess, time
import pool
from ledger import noted

@pool.job
@noted
def start_a_sleeper() -> None:
    subprocess.Popen(["sh", "-c", "sleep 301 & sleep 302"])
    time.sleep(60)
"""
    house = open_house(workers=2, app=app, settings=QUICK_RESTARTS)
    job = house.enqueue("tasks.start_a_sleeper", max_retries=0)
    victim = house.wait_for_worker_of(job)
    house.wait_for(lambda: sleepers_of(victim.pid) >= 2, "sleepers")

    house.kill(victim.pid)

    house.wait_until(job, "failed")
    house.wait_for(lambda: sleepers_of(victim.pid) == 0, "no sleeper left")


def test_what_a_job_forked_ends_before_the_job_runs_again(open_house: OpenHouse) -> None:
    """A mere fork bears no mark of its worker: only the process group tells whose it is, as long as the zombie pins it."""
    app = """
import os, time
import pool
from ledger import noted

def beat():
    while True:
        with open(os.path.join(os.environ["GATES"], "beats"), "a") as file:
            file.write(f"{time.clock_gettime(time.CLOCK_BOOTTIME)}\\n")
        time.sleep(0.0005)

@pool.job
@noted
def fork_a_child() -> None:
    if pool.current().attempt == 1 and os.fork() == 0:
        beat()
    time.sleep(60)
"""
    house = open_house(workers=2, app=app, settings=QUICK_RESTARTS)
    job = house.enqueue("tasks.fork_a_child")
    victim = house.wait_for_worker_of(job)
    house.wait_for(lambda: members_of(victim.pid) == 2, "the forked child")
    beats = house.gates / "beats"
    house.wait_for(lambda: beats.exists() and beats.stat().st_size > 0, "its beats")

    house.kill(victim.pid)

    house.wait_for_worker_of(job, other_than=victim)
    house.wait_for(lambda: members_of(victim.pid) == 0, "an empty group")
    last_beat = max(float(line) for line in beats.read_text().split())
    assert last_beat < house.runs(job)[1].started


def members_of(group: int) -> int:
    found = subprocess.run(["pgrep", "-g", str(group)], capture_output=True, text=True, check=False)
    return len(found.stdout.split())


def sleepers_of(group: int) -> int:
    found = subprocess.run(["pgrep", "-g", str(group), "sleep"], capture_output=True, text=True, check=False)
    return len(found.stdout.split())


def test_a_killed_keeper_is_replaced_and_jobs_go_on(open_house: OpenHouse) -> None:
    house = open_house(workers=2)
    first = house.keeper_pid()

    house.kill(first)

    house.wait_for(lambda: house.keeper_pid() != first, "another keeper")
    job = house.enqueue("tasks.quick")
    house.wait_until(job, "completed")


def test_a_worker_killed_while_the_keeper_is_dead_loses_no_job(open_house: OpenHouse) -> None:
    house = open_house(workers=2, settings=QUICK_RESTARTS)
    job = house.enqueue("tasks.hold", {"gate": "a"})
    victim = house.wait_for_worker_of(job)

    house.kill(house.keeper_pid())
    house.kill(victim.pid)

    house.wait_for_worker_of(job, other_than=victim)
    house.release("a")
    done = house.wait_until(job, "completed")
    assert done.attempts[0].cause is not None
    assert done.attempts[0].cause.signal == 9


def test_health_says_whether_a_pool_is_there(open_house: OpenHouse) -> None:
    house = open_house(workers=8)
    assert house.cli("health").returncode == 0
    document = house.cli_json("status")
    assert len(document["workers"]) == 8
    assert document["keeper"]["pid"]
    assert document["backend"]["ok"]
    house.stop()
    assert house.cli("health", check=False).returncode == 69
