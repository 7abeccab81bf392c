"""Kills by order: timeouts, memory, silence, cancel. Each must hit the very claim it was meant for, and nobody else."""

import os
import signal
import time
from pathlib import Path

import pytest

from pool.board.record import Ordered
from tests.helpers.coldness import coldness
from tests.helpers.until import until
from tests.supervisor.stage import Stage


def test_a_job_beyond_its_hard_deadline_is_killed_and_its_stack_kept(stage: Stage) -> None:
    stage.plan(2).start()
    victim, neighbour = stage.worker(1), stage.worker(2)

    stage.tell(1, "job 600 0.5")

    note = stage.until_note(victim["pid"])
    assert (note["ordered"], note["planned"], note["started"]) == (Ordered.TIMEOUT, 0, {"0": 1})
    assert "puppet.py" in note["stack"]
    assert stage.until_replaced(victim)["last_exit"]["cause"] == "signal 9, sent by jobpool (timeout)"
    assert stage.worker(2)["pid"] == neighbour["pid"]


def test_a_result_in_hand_has_no_deadline(stage: Stage) -> None:
    stage.plan(1).start()
    before = stage.pids()
    stage.tell(1, "result 2.5 0.5")

    stage.until_worker(1, completed=1)

    assert stage.pids() == before


def test_the_subprocesses_of_a_job_are_killed_with_it(stage: Stage) -> None:
    stage.plan(1).start()
    stage.tell(1, "spawn")
    spawned = stage.spawned()

    stage.tell(1, "job 600 0.2")

    until(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in spawned), "grandchildren gone")


def test_a_silent_worker_is_replaced(stage: Stage) -> None:
    stage.plan(1, silence_timeout=1.0).start()
    victim = stage.worker(1)

    stage.tell(1, "silent")

    assert stage.until_replaced(victim)["last_exit"]["cause"] == "signal 9, sent by jobpool (silent)"


def test_a_stopped_idle_worker_is_replaced(stage: Stage) -> None:
    stage.plan(1, silence_timeout=1.0).start()
    victim = stage.worker(1)

    os.kill(victim["pid"], signal.SIGSTOP)

    stage.until_replaced(victim)


def test_a_silent_keeper_is_replaced(stage: Stage) -> None:
    stage.plan(1)
    stage.specs["keeper"]["silence_timeout"] = 1.0
    stage.write_plan()
    stage.start()
    victim = stage.status()["keeper"]["pid"]

    os.kill(victim, signal.SIGSTOP)

    until(lambda: (stage.status()["keeper"] or {}).get("pid") not in (None, victim), "new keeper")


def test_a_worker_in_user_code_may_be_silent(stage: Stage) -> None:
    stage.plan(1, silence_timeout=1.5).start()
    before = stage.pids()
    stage.tell(1, "job 600")
    stage.until_worker(1, state="busy")

    stage.tell(1, "silent")
    stage.signal(signal.SIGTTIN)  # a second worker, started after the time in which the first would have been killed
    until(lambda: len(stage.pids()) == 2, "second worker")
    time.sleep(3.0)

    assert before <= stage.pids()


def test_one_stopped_with_a_result_in_hand_is_replaced_but_one_that_waits_is_not(stage: Stage) -> None:
    stage.plan(1, silence_timeout=1.5).start()
    victim = stage.worker(1)
    stage.tell(1, "result 600")
    time.sleep(3.5)  # longer than silence_timeout and a look: it only waits for the store
    assert stage.worker(1)["pid"] == victim["pid"]

    os.kill(victim["pid"], signal.SIGSTOP)

    assert stage.until_note(victim["pid"])["ordered"] == Ordered.SILENT


@pytest.mark.parametrize("_", range(3))
def test_a_supervisor_that_was_away_blames_nobody(stage: Stage, _: int) -> None:
    stage.plan(2, silence_timeout=2.5).start()
    before = stage.pids()
    stage.signal(signal.SIGSTOP)
    for pid in before:
        os.kill(pid, signal.SIGSTOP)

    time.sleep(5.0)
    stage.signal(signal.SIGCONT)
    until(lambda: "the supervisor was away" in stage.log(), "gap seen")
    for pid in before:
        os.kill(pid, signal.SIGCONT)

    time.sleep(3.0)
    assert stage.pids() == before


def test_a_worker_above_memory_kill_is_killed_in_mid_job_and_its_neighbour_works_on(stage: Stage) -> None:
    stage.plan(2, memory={"kill": 150 << 20, "check_seconds": 0.2}).start()
    victim, neighbour = stage.worker(1), stage.worker(2)
    stage.until_worker(1, state="idle")
    stage.tell(1, "job 600")

    stage.tell(1, "grow 200")

    assert stage.until_note(victim["pid"])["ordered"] == Ordered.MEMORY
    stage.until_replaced(victim)
    assert stage.worker(2)["pid"] == neighbour["pid"]


def test_a_worker_above_memory_limit_is_replaced_when_its_heir_is_ready(stage: Stage) -> None:
    stage.plan(2, memory={"limit": 150 << 20, "check_seconds": 0.2}).start()
    victim = stage.worker(1)
    until(lambda: stage.worker(1)["rss_bytes"], "measured")

    stage.tell(1, "grow 200")

    heir = stage.until_replaced(victim)
    assert heir["restarts"] == 0
    assert stage.until_note(victim["pid"])["planned"] == 1


def test_recycling_for_memory_is_staggered(stage: Stage) -> None:
    stage.plan(8, memory={"limit": 150 << 20, "check_seconds": 0.2}).start()
    before = stage.pids()
    until(lambda: all(worker["rss_bytes"] for worker in stage.workers()), "measured")
    for slot in (1, 2, 3):
        stage.tell(slot, "grow 200")
    most = 0

    while before & {stage.worker(slot)["pid"] for slot in (1, 2, 3)}:
        most = max(most, len([worker for worker in stage.workers() if worker["state"] == "booting"]))

    assert most <= 1


def test_a_ceiling_below_a_fresh_worker_is_a_complaint_and_no_loop(stage: Stage) -> None:
    stage.plan(2, memory={"limit": 1 << 20, "check_seconds": 0.2}).start()
    before = stage.pids()

    until(lambda: stage.status()["pool"]["problems"], "complaint")

    (problem,) = stage.status()["pool"]["problems"]
    assert "a fresh worker already has" in problem
    time.sleep(2.5)  # several checks
    assert stage.pids() == before


def test_kill_cancels_the_very_job_by_force(stage: Stage) -> None:
    stage.plan(2).start()
    stage.tell(1, "job 600")
    victim = stage.until_worker(1, state="busy")

    code, answer = stage.command("kill", job=victim["jobs"][0]["id"])

    assert (code, answer["pid"]) == (200, victim["pid"])
    assert stage.until_note(victim["pid"])["ordered"] == Ordered.CANCEL


def test_an_order_that_comes_too_late_lets_the_process_go_on(stage: Stage) -> None:
    """The job ends while the parent waits for its stack: the board, read again, says so, and SIGCONT follows."""
    stage.plan(1).start()
    victim = stage.worker(1)
    stage.tell(1, "late")

    stage.until_worker(1, completed=1)
    time.sleep(1.5)

    assert stage.worker(1)["pid"] == victim["pid"]
    assert stage.worker(1)["state"] == "idle"
    stage.tell(1, "store")  # it goes on


@pytest.mark.serial
def test_an_idle_supervisor_costs_next_to_nothing(stage: Stage) -> None:
    stage.plan(8).start()

    def cpu() -> float:
        fields = Path(f"/proc/{stage.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    before = cpu()
    time.sleep(10)
    spent = cpu() - before
    assert spent <= 0.08 * coldness()


def cgroup_of(stage: Stage, *, limit_mb: int, used_mb: int) -> None:
    """What the supervisor believes of its cgroup: the kernel's files, in the scene."""
    folder = stage.scene / "root/sys/fs/cgroup/pool"
    folder.mkdir(parents=True, exist_ok=True)
    (stage.scene / "root/proc/self").mkdir(parents=True, exist_ok=True)
    (stage.scene / "root/proc/self/cgroup").write_text("0::/pool\n")
    for name, size_mb in (("memory.max", limit_mb), ("memory.current", used_mb)):
        part = folder / f"{name}.part"
        part.write_text(f"{size_mb << 20}\n")
        part.replace(folder / name)


def test_ceilings_above_what_the_cgroup_allows_are_warned_about_until_they_fit(stage: Stage) -> None:
    cgroup_of(stage, limit_mb=600, used_mb=100)
    stage.plan(4, memory={"limit": 200 << 20}).start()

    (problem,) = stage.status()["pool"]["problems"]
    assert "the cgroup allows 629,145,600" in problem
    assert "memory ceilings are above what there is" in stage.log()
    memory = stage.status()["memory"]
    assert (memory["ceilings_bytes"], memory["limit_bytes"], memory["limit_by"]) == (800 << 20, 600 << 20, "cgroup")
    assert memory["left_bytes"] == 500 << 20

    stage.command("scale", count=3)
    until(lambda: not stage.status()["pool"]["problems"], "it fits now")


def test_a_roll_waits_for_memory_while_leavers_still_use_it(stage: Stage) -> None:
    cgroup_of(stage, limit_mb=1000, used_mb=999)
    stage.plan(2, memory={"check_seconds": 0.1}).start()
    until(lambda: all(worker["rss_bytes"] for worker in stage.workers()), "measured")
    for slot in (1, 2):
        stage.tell(slot, "job 600")
        stage.until_worker(slot, state="busy")

    assert stage.command("reload", rolling=True)[0] == 200  # one too many is always allowed
    until(lambda: "replacements wait for memory" in str(stage.status()["pool"]["problems"]), "said")
    assert len([worker for worker in stage.workers() if worker["pid"]]) == 3
    assert stage.state() == "reloading"

    cgroup_of(stage, limit_mb=1000, used_mb=100)
    stage.until_state("ready")
    assert len([worker for worker in stage.workers() if worker["pid"]]) == 4
    assert stage.status()["pool"]["problems"] == []
