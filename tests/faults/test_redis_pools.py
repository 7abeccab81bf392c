"""Whole pools on a Redis that restarts, drops its clients, turns replica, or asks for a password."""

import json
import os
import subprocess
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest

from pool.cli import control
from pool.errors import BackendUnavailable
from tests.faults.conftest import QUICK_RESTARTS, OpenHouse
from tests.helpers.house import House
from tests.helpers.servers import Server, running

PASSWORD = "s3cr3t-XYZ"


def drop_clients(server: Server) -> None:
    for _ in range(3):
        server.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        time.sleep(0.3)


def restarts(house: House) -> int:
    return sum(worker["restarts"] for worker in house.status()["workers"])


def status_text(house: House) -> str:
    """The status, or nothing while the pool cannot be asked yet."""
    try:
        return json.dumps(house.status())
    except control.PoolUnreachable:
        return ""


@pytest.mark.parametrize("accident", ["restart", "dropped clients"])
def test_idle_workers_hear_again_after_the_server_was_away(
    open_house: OpenHouse, server: Server, accident: str
) -> None:
    house = open_house(workers=4, backend=server.url)
    if accident == "restart":
        server.stop()
        house.wait_for(lambda: house.status()["backend"]["ok"] is False, "the status to say so")
        server.start()
    else:
        drop_clients(server)
    house.wait_for(lambda: house.status()["backend"]["ok"], "the status to say so")

    jobs = house.enqueue_many([("tasks.quick", {})] * 10)

    house.wait_for(lambda: house.counts()["completed"] == 10, "ten jobs")
    assert all(len(house.runs(job)) == 1 for job in jobs)
    assert restarts(house) == 0


def test_orders_are_obeyed_after_all_clients_were_dropped(open_house: OpenHouse, server: Server) -> None:
    house = open_house(workers=2, backend=server.url)
    job = house.enqueue("tasks.nap", {"seconds": 60})
    house.wait_for_worker_of(job)

    drop_clients(server)
    house.store.cancel(job)
    house.store.set_queue("default", paused=True)

    house.wait_until(job, "cancelled")
    waiting = house.enqueue("tasks.quick")
    time.sleep(1.5)  # the time in which a worker that does not know of the pause would start it
    assert house.runs(waiting) == []
    house.store.set_queue("default", paused=False)
    house.wait_until(waiting, "completed")


def test_a_primary_that_turns_replica_for_a_while_loses_nothing_it_has_accepted(
    open_house: OpenHouse, server: Server
) -> None:
    house = open_house(workers=4, backend=server.url)
    accepted, refused = [], 0
    server.call("REPLICAOF", "127.0.0.1", "1")
    for _ in range(10):
        try:
            accepted.append(house.enqueue("tasks.nap", {"seconds": 0.01}))
        except BackendUnavailable:
            refused += 1
        time.sleep(0.1)
    server.call("REPLICAOF", "NO", "ONE")
    assert (accepted, refused) == ([], 10)
    accepted += house.enqueue_many([("tasks.nap", {"seconds": 0.01})] * 50)

    house.wait_for(lambda: house.counts()["completed"] == len(accepted), "all that was accepted")
    assert Counter(note["job"] for note in house.notes() if note["what"] == "start") == Counter(accepted)
    assert restarts(house) == 0


def test_a_job_that_ends_while_the_server_is_a_replica_is_recorded_afterwards(
    open_house: OpenHouse, server: Server
) -> None:
    house = open_house(workers=1, backend=server.url)
    job = house.enqueue("tasks.hold")
    house.wait_for_worker_of(job)
    server.call("REPLICAOF", "127.0.0.1", "1")
    house.release()
    house.wait_for(lambda: house.runs(job)[0].ended, "the end of the job")
    time.sleep(1)
    server.call("REPLICAOF", "NO", "ONE")
    done = house.wait_until(job, "completed")
    assert len(house.runs(job)) == 1
    assert done.claim == 1


def test_the_password_is_nowhere_to_be_read(open_house: OpenHouse) -> None:
    with running(password=PASSWORD) as server:
        house = open_house(workers=1, backend=server.url, settings='[log]\nlevel = "DEBUG"\n')
        house.wait_until(house.enqueue("tasks.quick"), "completed")
        said = [house.log_text(), str(house.status())]
        said += [house.cli(*words, check=False).stdout for words in (["status"], ["doctor"], ["queues"], ["check"])]
        said += [subprocess.run(["ps", "-ww", "-o", "args=", "-p", *map(str, house.pids())], capture_output=True, text=True).stdout]  # fmt: skip
        house.stop()

        right = house.config_file.read_text()
        for wrong in (right.replace(PASSWORD, f"wrong-{PASSWORD}"), right.replace(f":{server.port}", ":1")):
            house.config_file.write_text(wrong)
            for words in (["queues"], ["--debug", "enqueue", "tasks.quick"]):
                done = house.cli(*words, check=False)
                said += [done.stdout, done.stderr]
            house.start(wait=False)
            house.wait_for(lambda: '"ok": false' in status_text(house), "the status to say so")
            said.append(status_text(house))
            house.stop()
        said.append(house.log_text())
    assert not [text for text in said if PASSWORD in text]


def sockets_to(server: Server) -> set[str]:
    """Inodes of the sockets of this machine that are connected to its port."""
    wanted = f":{server.port:04X}"
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return {row[9] for row in rows if row[2].endswith(wanted) and row[9] != "0"}


def sockets_of(pid: int) -> set[str]:
    found = set()
    with suppress(OSError):
        for fd in os.listdir(f"/proc/{pid}/fd"):
            with suppress(OSError):
                found.add(os.readlink(f"/proc/{pid}/fd/{fd}").removeprefix("socket:[").removesuffix("]"))
    return found


@pytest.mark.timeout(300)
@pytest.mark.parametrize("count", [40, pytest.param(200, marks=pytest.mark.full)])
def test_no_connection_to_the_server_belongs_to_two_processes(
    open_house: OpenHouse, server: Server, count: int
) -> None:
    """While children are recycled after each job; a child that closes "its" copy would cut the other's line."""
    house = open_house(workers=3, backend=server.url, settings="max_jobs = 1\n" + QUICK_RESTARTS)
    jobs = house.enqueue_many([("tasks.quick", {})] * count)
    looks = 0
    while house.counts()["completed"] < count:
        ours = sockets_to(server)
        owners = Counter(inode for pid in house.pids() for inode in sockets_of(pid) & ours)
        assert not [inode for inode, many in owners.items() if many > 1]
        assert not sockets_of(house.pid) & ours, "the supervisor opens no store"
        looks += 1
    assert looks > 1
    assert Counter(note["job"] for note in house.notes() if note["what"] == "start") == Counter(jobs)
    assert "rotocol" not in house.log_text()


def test_delayed_jobs_start_in_time_though_the_server_was_restarted(open_house: OpenHouse, server: Server) -> None:
    house = open_house(workers=2, backend=server.url)
    asked = time.time()
    jobs = house.enqueue_many([("tasks.quick", {})] * 10, delay=4)
    server.kill()
    house.wait_for(lambda: time.time() > asked + 1, "some time without a server")
    server.start()

    house.wait_for(lambda: house.counts()["completed"] == len(jobs), "all of them")

    late = [(house.job(job).started_at or 0) - asked - 4 for job in jobs]
    assert min(late) > -0.1 and max(late) < 20
    assert all(len(house.runs(job)) == 1 for job in jobs)
