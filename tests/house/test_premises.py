"""Where a pool lives: as PID 1, among reused pids, in a directory that a dead one has left."""

import os
import signal
import subprocess
from collections.abc import Callable

import pytest

from tests.helpers.house import APP, House
from tests.helpers.until import until
from tests.supervisor.stage import Stage, children_of, lives, zombies_of

OpenHouse = Callable[..., House]
OWN_PIDS = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")

DAEMON_APP = (
    APP
    + """
@pool.job
@noted
def leave_a_stranger() -> None:
    if os.fork() == 0:
        if os.fork() == 0:
            time.sleep(0.3)
        os._exit(0)
    os.wait()
"""
)


@pytest.fixture
def stage(tmp_path: object) -> object:
    from pathlib import Path

    stage = Stage(Path(str(tmp_path)))
    yield stage
    stage.close()


def may_have_own_pids() -> bool:
    return subprocess.run([*OWN_PIDS, "true"], capture_output=True).returncode == 0


def test_as_pid_1_a_pool_works_reloads_reaps_strangers_and_stops(open_house: OpenHouse) -> None:
    if not may_have_own_pids():
        pytest.skip("no permission for a pid namespace")
    house = open_house(workers=2, app=DAEMON_APP, prefix=OWN_PIDS)
    (inner,) = children_of(house.pid)
    assert house.status()["pool"]["pid"] == 1

    jobs = house.enqueue_many([("tasks.quick", {})] * 15 + [("tasks.leave_a_stranger", {})] * 5)
    for job in jobs:
        assert house.wait_until(job, "completed").retry_count == 0
        assert len(house.runs(job)) == 1
    until(lambda: len(children_of(inner)) == 3 and not zombies_of(inner), "workers and keeper alone")
    house.configure(workers=3)
    os.kill(inner, signal.SIGHUP)
    house.wait_for(lambda: len(house.workers()) == 3, "a third worker")

    assert all(worker["restarts"] == 0 for worker in house.status()["workers"])
    os.kill(inner, signal.SIGTERM)
    assert house.wait_exit() == 0


def test_a_stranger_with_the_pid_of_a_dead_worker_is_left_alone(stage: Stage) -> None:
    if not may_have_own_pids() or os.geteuid() != 0:
        pytest.skip("needs root and a pid namespace")
    stage.plan(1, first_delay=600.0, max_delay=600.0)
    script = '"$@"; touch "$0/over"; sleep 600'
    stage.start(*OWN_PIDS, "sh", "-c", script, str(stage.scene))
    (shell,) = children_of(stage.pid)
    supervisor = next(pid for pid in children_of(shell))
    pid = stage.worker(1)["pid"]  # as it is called in there
    until(lambda: kill_inside(shell, pid), "killed")
    until(lambda: stage.worker(1)["pid"] is None, "in backoff")

    sleeper = start_with_pid(shell, pid)
    stage.command("scale", count=0)
    until(lambda: not stage.workers(), "no place left")
    os.kill(supervisor, signal.SIGTERM)

    until(lambda: (stage.scene / "over").exists(), "stopped")
    assert lives(sleeper.pid)
    assert inside(shell, f"cat /proc/{pid}/comm").strip() == "sleep"
    sleeper.kill()
    sleeper.wait()
    stage.process.kill()


def inside(target: int, command: str) -> str:
    words = ["nsenter", "--target", str(target), "--pid", "--mount", "sh", "-c", command]
    return subprocess.run(words, capture_output=True, text=True, check=False).stdout


def kill_inside(target: int, pid: int) -> bool:
    return inside(target, f"kill -9 {pid} && echo done").strip() == "done"


def start_with_pid(target: int, pid: int) -> "subprocess.Popen[str]":
    """A `sleep` in the namespace whose pid there is this one."""
    command = f"echo {pid - 1} > /proc/sys/kernel/ns_last_pid; sleep 1000 & echo $!; wait"
    words = ["nsenter", "--target", str(target), "--pid", "--mount", "sh", "-c", command]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    with process.stdout:
        got = int(process.stdout.readline() or 0)
    if got != pid:
        process.kill()
        pytest.skip(f"the kernel gave pid {got}, not {pid}")
    return process


def test_a_lock_file_that_names_a_living_stranger_blocks_nothing_and_he_lives_on(stage: Stage) -> None:
    sleeper = subprocess.Popen(["sleep", "600"])
    (stage.scene / "run").mkdir(mode=0o750)
    (stage.scene / "run" / "jobpool.lock").write_text(f"{sleeper.pid}\n")

    stage.plan(1).start()
    stage.signal(signal.SIGTERM)

    assert stage.ended() == 0
    assert sleeper.poll() is None
    sleeper.kill()
    sleeper.wait()


def test_a_pool_killed_by_a_power_cut_starts_again_in_its_directory(open_house: OpenHouse) -> None:
    house = open_house(workers=2)
    house.send_signal_to_all(signal.SIGKILL)
    house.wait_exit()
    assert house.socket.exists()  # nobody could remove it

    house.start()

    assert house.wait_until(house.enqueue("tasks.quick"), "completed")


def test_a_file_in_the_place_of_the_socket_is_named_and_kept(open_house: OpenHouse) -> None:
    house = open_house(workers=1, start=False)
    house.socket.parent.mkdir(mode=0o750)
    house.socket.write_text("precious")

    house.start(wait=False)

    assert house.wait_exit() == 78
    assert str(house.socket) in house.log_text()
    assert house.socket.read_text() == "precious"


def test_a_removed_socket_comes_back_and_nobody_notices(open_house: OpenHouse) -> None:
    house = open_house(workers=1)
    before = house.worker_pids()
    house.socket.unlink()

    house.wait_for(house.answers, "the socket")

    house.wait_for(lambda: house.worker_pids() == before, "the same workers")
    assert house.socket.stat().st_mode & 0o777 == 0o660
