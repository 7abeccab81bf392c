"""The README's table of signals, its last column: what each does to a real worker, whatever the pool is doing."""

import signal
from collections.abc import Callable

import pytest

from tests.helpers.house import APP, House, Worker

OpenHouse = Callable[..., House]
SIG = signal.Signals

# What people send by name to everything called jobpool. One must not do a thing to a worker or its job.
HARMLESS = {
    "INT": SIG.SIGINT,
    "HUP": SIG.SIGHUP,
    "USR1": SIG.SIGUSR1,
    "USR2": SIG.SIGUSR2,
    "TTIN": SIG.SIGTTIN,
    "TTOU": SIG.SIGTTOU,
    "CHLD": SIG.SIGCHLD,
    "PIPE": SIG.SIGPIPE,
    "WINCH": SIG.SIGWINCH,
}
WORKER_ROWS = {"TERM", "QUIT", "INT", "HUP", "USR1", "USR2", "TTIN, TTOU", "CHLD", "PIPE, WINCH"}
QUICK_RESTARTS = "[restart]\nfirst_delay = 0.05\nmax_delay = 0.1\n"
SLOW_APP = 'import os, time\nwhile not os.path.exists(os.environ["GATES"] + "/import"):\n    time.sleep(0.01)\n' + APP


def send_all_harmless(house: House, pid: int) -> None:
    for _ in range(2):
        for number in HARMLESS.values():
            house.kill(pid, number)


def test_a_booting_worker_is_disturbed_by_none_of_them(open_house: OpenHouse) -> None:
    house = open_house(workers=1, app=SLOW_APP, wait=False)
    booting = house.wait_for(lambda: booting_pid(house), "a booting worker")

    send_all_harmless(house, booting)
    house.release("import")

    house.wait_ready()
    assert house.worker_pids() == {booting}


def booting_pid(house: House) -> int:
    """Of the worker that imports its modules; it has its handlers when the slow import has begun."""
    try:
        workers = house.workers()
    except Exception:  # the socket is not there yet
        return 0
    return next((worker.pid for worker in workers if f"worker {worker.slot}" in title_of(worker.pid)), 0)


def title_of(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/cmdline") as file:
            return file.read()
    except OSError:
        return ""


@pytest.mark.parametrize("phase", ["ready", "reloading", "stopping"])
def test_a_working_one_is_disturbed_by_none_of_them_whatever_the_pool_does(open_house: OpenHouse, phase: str) -> None:
    house = open_house(workers=2)
    job = house.enqueue("tasks.hold", {"gate": "a"})
    holder = house.wait_for_worker_of(job)
    if phase == "reloading":
        house.cli("reload", "--rolling")
    elif phase == "stopping":
        house.send_signal(SIG.SIGTERM)
    if phase != "ready":
        house.wait_for(lambda: state_of(house, holder) == "retiring", "told to leave")

    send_all_harmless(house, holder.pid)
    house.release("a")

    if phase == "stopping":
        assert house.wait_exit() == 0
    done = house.wait_until(job, "completed")
    assert (done.retry_count, [run.pid for run in house.runs(job)]) == (0, [holder.pid])


def state_of(house: House, worker: Worker) -> str:
    return next((now.state for now in house.workers() if now.pid == worker.pid), "gone")


def test_an_idle_one_is_disturbed_by_none_of_them(open_house: OpenHouse) -> None:
    house = open_house(workers=2)
    before = house.worker_pids()

    for pid in before:
        send_all_harmless(house, pid)

    for job in house.enqueue_many([("tasks.quick", {})] * 20):
        house.wait_until(job, "completed")
    assert house.worker_pids() == before


def test_term_ends_an_idle_one_at_once_and_a_busy_one_after_its_job(open_house: OpenHouse) -> None:
    house = open_house(workers=2, settings=QUICK_RESTARTS)
    job = house.enqueue("tasks.hold", {"gate": "a"})
    busy = house.wait_for_worker_of(job)
    (idle,) = house.worker_pids() - {busy.pid}

    house.kill(busy.pid, SIG.SIGTERM)
    house.kill(idle, SIG.SIGTERM)

    house.wait_for(lambda: idle not in house.worker_pids() and len(house.workers()) >= 2, "the idle one replaced")
    assert busy.pid in house.worker_pids()
    waiting = house.enqueue("tasks.quick")
    house.wait_until(waiting, "completed")
    assert {run.pid for run in house.runs(waiting)}.isdisjoint({busy.pid})
    house.release("a")
    assert house.wait_until(job, "completed").retry_count == 0
    house.wait_for(lambda: busy.pid not in house.worker_pids() and len(house.workers()) == 2, "the busy one replaced")
    assert house.status()["totals"]["worker_deaths"] == 0


@pytest.mark.parametrize("phase", ["ready", "reloading"])
def test_quit_ends_it_and_its_job_runs_again(open_house: OpenHouse, phase: str) -> None:
    house = open_house(workers=2, settings=QUICK_RESTARTS)
    job = house.enqueue("tasks.hold", {"gate": "a"})
    holder = house.wait_for_worker_of(job)
    if phase == "reloading":
        house.cli("reload", "--rolling")

    house.kill(holder.pid, SIG.SIGQUIT)

    house.wait_for_worker_of(job, other_than=holder)
    house.release("a")
    done = house.wait_until(job, "completed")
    assert done.attempts[0].cause is not None
    assert done.attempts[0].cause.signal == SIG.SIGQUIT


def test_quit_of_one_that_stops_gives_its_job_back(open_house: OpenHouse) -> None:
    house = open_house(workers=1)
    job = house.enqueue("tasks.hold", {"gate": "a"})
    holder = house.wait_for_worker_of(job)
    house.send_signal(SIG.SIGTERM)
    house.wait_for(lambda: state_of(house, holder) == "retiring", "told to leave")

    house.kill(holder.pid, SIG.SIGQUIT)

    assert house.wait_exit() == 0
    assert house.job(job).status.value == "pending"


def test_usr2_shows_the_stack(open_house: OpenHouse) -> None:
    house = open_house(workers=1)
    house.wait_for_worker_of(house.enqueue("tasks.hold"))

    assert "wait_for_gate" in house.cli("stack", "1").stdout


def test_usr1_to_the_supervisor_makes_every_process_reopen_its_log(open_house: OpenHouse) -> None:
    house = open_house(workers=2, start=False)
    file = house.folder / "jobpool.log"
    house.configure(workers=2, settings=f'[log]\nfile = "{file}"\n')
    house.start()
    pids = [pid for pid in house.pids() if pid != house.pid]
    file.rename(house.folder / "jobpool.log.1")

    house.send_signal(SIG.SIGUSR1)

    old = str(house.folder / "jobpool.log.1")
    house.wait_for(lambda: not any(old in opened_by(pid) for pid in pids), "nobody writes into the moved file")
    house.wait_until(house.enqueue("tasks.give_up"), "failed")
    house.wait_for(lambda: file.exists() and "hopeless" in file.read_text(), "lines in the new one")


def opened_by(pid: int) -> set[str]:
    import os

    paths = set()
    try:
        for name in os.listdir(f"/proc/{pid}/fd"):
            paths.add(os.readlink(f"/proc/{pid}/fd/{name}"))
    except OSError:
        pass
    return paths
