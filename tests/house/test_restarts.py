"""Workers that leave by themselves and are replaced, that cannot start again, that all die at once; what they leave behind."""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

from tests.helpers.house import APP, House

OpenHouse = Callable[..., House]

# Backoff of 0.2, 0.4, 0.8 … at most 2 s.
STORMY = "[restart]\nfirst_delay = 0.2\nmax_delay = 2\n"


def births_of(house: House, slot: int) -> int:
    return sum(f"child started role=worker slot={slot} " in line for line in house.log_text().splitlines())


def test_with_max_jobs_each_worker_is_replaced_and_every_job_runs_once(open_house: OpenHouse) -> None:
    house = open_house(workers=2, settings="max_jobs = 1\n")
    jobs = house.enqueue_many([("tasks.quick", {})] * 30)

    for job in jobs:
        assert house.wait_until(job, "completed").retry_count == 0
    assert [len(house.runs(job)) for job in jobs] == [1] * 30
    assert len({house.runs(job)[0].pid for job in jobs}) == 30
    assert all(worker["restarts"] == 0 for worker in house.status()["workers"])
    assert house.status()["totals"]["worker_deaths"] == 0


def test_with_max_age_a_worker_is_replaced_and_its_job_is_not_interrupted(open_house: OpenHouse) -> None:
    house = open_house(workers=1, settings="max_age = 1\n")
    job = house.enqueue("tasks.nap", {"seconds": 3})
    holder = house.wait_for_worker_of(job)

    assert house.wait_until(job, "completed").retry_count == 0
    assert len(house.runs(job)) == 1
    house.wait_for(lambda: holder.pid not in house.worker_pids(), "it left")
    place = house.status()["workers"][0]  # its heirs grow old as well, and may be two for a moment
    assert place["last_exit"]["cause"] == "max age"
    assert place["restarts"] == 0


def test_a_worker_that_cannot_start_again_is_tried_ever_more_seldom_and_the_pool_stays(open_house: OpenHouse) -> None:
    house = open_house(workers=2, settings=STORMY)
    house.write_module("tasks", "import no_such_library\n" + APP)
    victim = house.workers()[0]
    began = time.monotonic()
    house.kill(victim.pid)

    house.wait_for(
        lambda: any(worker["state"] == "parked" for worker in house.status()["workers"]), "the place is parked"
    )
    took = time.monotonic() - began
    assert births_of(house, victim.slot) <= 1 + 5 + 1
    assert took > 0.9 * (0.2 + 0.4 + 0.8 + 1.6)  # five failures, the waits between them
    assert house.status()["pool"]["state"] == "degraded"
    assert "No module named 'no_such_library'" in str(house.status()["pool"]["problems"])
    assert house.wait_until(house.enqueue("tasks.quick"), "completed")  # the other works on
    assert len(house.log_text()) < 100_000

    house.write_module("tasks", APP)
    house.wait_for(lambda: house.status()["pool"]["state"] == "ready", "recovered by itself")
    assert house.status()["pool"]["problems"] == []


def test_each_death_of_a_place_makes_the_wait_before_its_next_birth_twice_as_long(open_house: OpenHouse) -> None:
    house = open_house(workers=1, settings="[restart]\nfirst_delay = 0.4\nmax_delay = 60\nhealthy_after = 1000\n")
    waited = []
    for _ in range(3):
        (victim,) = house.wait_for(lambda: [w for w in house.workers() if w.state == "idle"], "a ready worker")
        died = time.clock_gettime(time.CLOCK_BOOTTIME)
        house.kill(victim.pid)
        house.wait_for(lambda before=victim.pid: house.worker_pids() - {before}, "the next one")
        (heir,) = house.worker_pids()
        waited.append(born_at(heir) - died)

    for wait, least in zip(waited, (0.4, 0.8, 1.6), strict=True):
        assert wait > 0.9 * least - 0.02  # up to a tenth shorter, and births are known to the tick
    assert house.status()["workers"][0]["restarts"] == 3


def born_at(pid: int) -> float:
    """By the kernel, in seconds since the boot."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[19]) / os.sysconf("SC_CLK_TCK")


def test_a_pool_whose_every_worker_fails_at_the_first_start_ends_with_78_and_the_childs_words(
    open_house: OpenHouse,
) -> None:
    house = open_house(workers=3, app="import no_such_library\n", wait=False)

    assert house.wait_exit() == 78
    assert "ModuleNotFoundError: No module named 'no_such_library'" in house.log_text()
    assert house.pids() == []


def test_all_children_killed_at_once_and_then_a_stop(open_house: OpenHouse) -> None:
    house = open_house(workers=4)
    jobs = house.enqueue_many([("tasks.hold", {"gate": "a"})] * 4)
    for job in jobs:
        house.wait_for_worker_of(job)
    for pid in [*house.worker_pids(), house.keeper_pid()]:
        house.kill(pid)

    house.send_signal(signal.SIGTERM)

    assert house.wait_exit() == 0
    assert [house.job(job).status.value for job in jobs] == ["pending"] * 4
    assert house.pids() == []


DAEMON_APP = (
    APP
    + """
@pool.job
def leave_a_daemon() -> int:
    reader, writer = os.pipe()
    if os.fork() == 0:
        os.setsid()
        pid = os.fork()
        if pid == 0:
            os.execvp("sleep", ["sleep", "305"])  # with our standard output and error
        os.write(writer, str(pid).encode())
        os._exit(0)
    os.wait()
    return int(os.read(reader, 20))
"""
)


def test_a_daemon_that_holds_our_output_does_not_keep_the_supervisor(open_house: OpenHouse) -> None:
    """A worker that leaves in order keeps what it started on purpose; nobody waits for that."""
    house = open_house(workers=1, app=DAEMON_APP)
    daemon = int(house.wait_until(house.enqueue("tasks.leave_a_daemon"), "completed").result or 0)

    began = time.monotonic()
    assert house.stop() == 0

    assert time.monotonic() - began < 25  # a stop may take 30 s
    assert Path(f"/proc/{daemon}").exists()


def test_kills_in_every_state_leave_no_zombie_and_no_descriptor(open_house: OpenHouse) -> None:
    from tests.supervisor.stage import open_descriptors, zombies_of

    house = open_house(workers=2, settings="[restart]\nfirst_delay = 0.01\nmax_delay = 0.02\n")
    before = open_descriptors(house.pid)
    for n in range(20):
        if n % 2:
            job = house.enqueue("tasks.hold", {"gate": f"g{n}"}, max_retries=90, max_kills=100)
            house.kill(house.wait_for_worker_of(job).pid)
            house.release(f"g{n}")
        else:
            house.kill(house.workers()[0].pid)
        house.wait_for(lambda: [worker.state for worker in house.workers()] == ["idle", "idle"], "both again")

    house.wait_for(lambda: not zombies_of(house.pid), "no zombie")
    house.wait_for(lambda: open_descriptors(house.pid) <= before + 2, "no descriptor more")
