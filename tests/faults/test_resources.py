"""Pools that run out of what the machine gives: processes, descriptors, memory; and a moment with very much to do."""

import hashlib
import json
import signal
import socket
import subprocess
import time
from contextlib import ExitStack, suppress

import pytest

from tests.faults.conftest import QUICK_RESTARTS, OpenHouse, with_setting
from tests.faults.tracing import require_strace
from tests.helpers.house import APP, House


def test_a_refused_fork_is_tried_again_and_disturbs_nobody(open_house: OpenHouse) -> None:
    require_strace()
    house = open_house(workers=2, settings=QUICK_RESTARTS)
    first, second = house.workers()
    refusing = subprocess.Popen(
        ["strace", "-e", "trace=clone,clone3,fork,vfork", "-e", "inject=clone,clone3,fork,vfork:error=EAGAIN",
         "-o", "/dev/null", "-p", str(house.pid)],
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert refusing.stderr is not None
    with refusing.stderr:
        while "attached" not in refusing.stderr.readline():
            assert refusing.poll() is None

    house.kill(first.pid)

    house.wait_for(lambda: "fork" in house.log_text(), "a complaint")
    assert house.is_running
    assert second.pid in house.worker_pids()
    house.wait_until(house.enqueue("tasks.quick"), "completed")
    refusing.send_signal(signal.SIGINT)
    refusing.wait(30)
    house.wait_for(lambda: len(house.worker_pids()) == 2, "two workers again")


def test_with_few_descriptors_a_flood_of_callers_harms_no_job(open_house: OpenHouse) -> None:
    house = open_house(workers=4, prefix=("prlimit", "--nofile=64:64"))
    with ExitStack() as stack:
        for _ in range(200):
            caller = stack.enter_context(socket.socket(socket.AF_UNIX))
            caller.settimeout(0.2)
            with suppress(OSError):
                caller.connect(str(house.socket))
        jobs = house.enqueue_many([("tasks.quick", {})] * 50)
        house.wait_for(lambda: house.counts()["completed"] == len(jobs), "all jobs")
        victim = next(pid for pid in house.pids() if pid != house.pid)
        house.kill(victim)
    house.wait_for(lambda: len(house.worker_pids()) == 4 and house.keeper_pid(), "everybody back")
    assert house.stop() == 0


HUNGRY = (
    APP
    + """
@pool.job(max_retries=1, backoff=[0.05])
@noted
def hungry() -> None:
    bytearray(8_000_000_000)
"""
)


def test_memory_that_is_not_given_is_an_error_of_the_job(open_house: OpenHouse) -> None:
    house = open_house(workers=1, app=HUNGRY, prefix=("prlimit", f"--as={4 * 1024**3}"))
    (worker,) = house.workers()
    failed = house.wait_until(house.enqueue("tasks.hungry"), "failed")
    assert (failed.reason, failed.exception) == ("retries_exhausted", "MemoryError")
    assert house.worker_pids() == {worker.pid}


@pytest.mark.timeout(240)
@pytest.mark.parametrize("seconds", [6, pytest.param(60, marks=pytest.mark.full)])
def test_a_pool_that_slept_as_a_whole_goes_on_as_if_nothing_had_been(on_each_store: OpenHouse, seconds: int) -> None:
    """Suspend: everybody stands still for longer than every patience, then all go on."""
    house = with_setting(on_each_store(workers=2, start=False), "backend", "lease = 2").start()
    job = house.enqueue("tasks.hold")
    worker = house.wait_for_worker_of(job)
    pids = house.pids()
    for pid in pids:
        house.kill(pid, signal.SIGSTOP)
    time.sleep(seconds)  # three leases and more
    for pid in pids:
        house.kill(pid, signal.SIGCONT)
    house.wait_until(house.enqueue("tasks.quick"), "completed")
    time.sleep(2)
    assert worker.pid in house.worker_pids()
    house.release()
    done = house.wait_until(job, "completed")
    assert (done.claim, len(house.runs(job))) == (1, 1)
    assert sorted(house.pids()) == sorted(pids)


@pytest.mark.full
@pytest.mark.serial
@pytest.mark.timeout(600)
def test_ten_thousand_jobs_due_in_one_instant_all_start(open_house: OpenHouse) -> None:
    house = open_house(workers=4)
    due = time.time() + 5
    house.enqueue_many([("tasks.quick", {})] * 10_000, run_at=due)
    house.wait_for(lambda: house.counts()["completed"] == 10_000, "all of them", within=120)
    assert sum(note["what"] == "start" for note in house.notes()) == 10_000


@pytest.mark.full
@pytest.mark.serial
@pytest.mark.timeout(600)
def test_two_hundred_workers_live_and_leave() -> None:
    house = House(workers=200)
    try:
        house.start(wait=False).wait_ready(within=180)
        jobs = house.enqueue_many([("tasks.nap", {"seconds": 0.05})] * 1000)
        house.wait_for(lambda: house.counts()["completed"] == len(jobs), "all jobs", within=120)
        assert house.stop(within=120) == 0
        assert house.pids() == []
    finally:
        house.close()


def test_a_flood_of_large_payloads_is_taken_whole(open_house: OpenHouse) -> None:
    app = (
        APP
        + """
import hashlib

@pool.job
def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
"""
    )
    house = open_house(workers=2, app=app)
    texts = [chr(97 + n % 26) * (65_480 + n % 40) for n in range(100)]
    jobs = house.enqueue_many([("tasks.digest", {"text": text}) for text in texts])
    house.wait_for(lambda: house.counts()["completed"] == len(jobs), "all jobs")
    for job, text in zip(jobs, texts, strict=True):
        assert json.loads(house.job(job).result or "") == hashlib.sha256(text.encode()).hexdigest()
