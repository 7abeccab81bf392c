"""The end of a pool: who leaves when, who is killed when, and what is told."""

import os
import signal
import time
from pathlib import Path

import pytest

from tests.helpers.until import until
from tests.supervisor.stage import Stage, children_of, lives


def test_an_idle_pool_leaves_at_once_and_the_keeper_last(stage: Stage, tmp_path: Path) -> None:
    stage.plan(3).start()

    stage.signal(signal.SIGTERM)

    assert stage.ended() == 0
    assert not (tmp_path / "run" / "jobpool.sock").exists()
    lines = [line for line in stage.log().splitlines() if "child left" in line]
    assert len(lines) == 4
    assert "role=keeper" in lines[-1]


def test_a_busy_worker_finishes_its_job_and_the_report_names_it(stage: Stage) -> None:
    stage.plan(2).start()
    stage.tell(1, "job 600")
    job = stage.until_worker(1, state="busy")["jobs"][0]["id"]

    stage.signal(signal.SIGTERM)
    stage.until_worker(1, state="retiring")
    stage.tell(1, "end")

    assert stage.ended() == 0
    report = stage.log().rpartition("stopped")[2]
    assert f"finished={job}" in report
    assert "killed_slots=none" in report


def test_a_worker_that_does_not_leave_is_killed_at_the_deadline_and_its_job_returned(stage: Stage) -> None:
    stage.plan(2, stop_timeout=2).start()
    victim = stage.worker(1)
    stage.tell(1, "job 600")
    job = stage.until_worker(1, state="busy")["jobs"][0]["id"]

    began = time.monotonic()
    stage.signal(signal.SIGTERM)
    until(lambda: stage.state() == "stopping", "stopping")
    time.sleep(1.0)  # the second signal must come well after the first
    stage.signal(signal.SIGTERM)

    assert stage.ended() == 0
    assert 2.0 <= time.monotonic() - began < 25  # it is 30 s where nothing else is said
    note = stage.until_note(victim["pid"])
    assert (note["ordered"], note["planned"], note["started"]) == (1, 1, {"0": 1})
    assert f"returned={job}" in stage.log()
    assert "killed_slots=1" in stage.log()


def test_a_deaf_worker_with_a_subprocess_is_killed_with_it(stage: Stage) -> None:
    stage.plan(1, stop_timeout=1).start()
    stage.tell(1, "spawn")
    spawned = stage.spawned()
    stage.tell(1, "deaf")

    stage.signal(signal.SIGTERM)

    assert stage.ended() == 0
    until(lambda: not any(map(lives, spawned)), "grandchildren gone")


def test_sigquit_kills_now(stage: Stage) -> None:
    stage.plan(2).start()
    stage.tell(1, "job 600")
    began = time.monotonic()

    stage.signal(signal.SIGQUIT)

    assert stage.ended() == 0
    assert time.monotonic() - began < 25  # the time for jobs to end is 30 s
    assert "not_returned=none" in stage.log()


def test_a_second_interrupt_kills_now_unless_it_is_the_same_key_press(stage: Stage) -> None:
    stage.plan(1).start()
    stage.tell(1, "job 600")

    stage.signal(signal.SIGINT)
    stage.signal(signal.SIGINT)
    until(lambda: stage.state() == "stopping", "stopping")
    time.sleep(0.7)  # the two came as one
    assert stage.process.poll() is None

    stage.signal(signal.SIGINT)

    assert stage.ended(25) == 0


def test_an_interrupt_of_the_foreground_group_reaches_the_parent_alone(stage: Stage) -> None:
    stage.plan(2).start(start_new_session=True)
    stage.tell(1, "job 1")

    os.killpg(stage.pid, signal.SIGINT)

    assert stage.ended() == 0
    assert "killed_slots=none" in stage.log()


def test_stop_now_by_the_socket_kills_now(stage: Stage) -> None:
    stage.plan(1).start()
    stage.tell(1, "job 600")

    assert stage.command("stop", now=True)[0] == 202

    assert stage.ended(25) == 0


def test_if_the_store_stays_away_the_keeper_has_its_time_and_the_report_says_so(stage: Stage) -> None:
    stage.plan(1, stop_timeout=1).start()
    stage.tell(1, "job 600")
    job = stage.until_worker(1, state="busy")["jobs"][0]["id"]
    stage.set("store-is-away")
    began = time.monotonic()

    stage.signal(signal.SIGTERM)

    assert stage.ended() == 0
    assert time.monotonic() - began > 5
    assert f"not_returned={job}" in stage.log()


def test_a_dead_keeper_is_brought_back_to_store_what_is_left(stage: Stage) -> None:
    stage.plan(1, stop_timeout=1)
    stage.specs["keeper"] |= {"first_delay": 600.0, "max_delay": 600.0}
    stage.write_plan()
    stage.start()
    victim = stage.worker(1)
    stage.tell(1, "job 600")
    os.kill(stage.status()["keeper"]["pid"], signal.SIGKILL)
    until(lambda: (stage.status()["keeper"] or {}).get("pid") is None, "no keeper")

    stage.signal(signal.SIGTERM)

    assert stage.ended() == 0
    assert stage.until_note(victim["pid"])["started"] == {"0": 1}


def test_a_worker_that_crashes_in_its_last_job_has_crashed(stage: Stage) -> None:
    stage.plan(1).start()
    victim = stage.worker(1)
    stage.tell(1, "job 600")
    stage.signal(signal.SIGTERM)
    until(lambda: stage.state() == "stopping", "stopping")

    stage.tell(1, "die SIGSEGV")

    assert stage.ended() == 0
    assert stage.until_note(victim["pid"])["planned"] == 0


def test_a_late_signal_to_a_pool_without_children_ends_it(stage: Stage) -> None:
    stage.plan(2, first_delay=600.0, max_delay=600.0).start()
    for pid in [*stage.pids(), stage.status()["keeper"]["pid"]]:
        os.kill(pid, signal.SIGKILL)
    until(lambda: not stage.pids(), "all dead")

    stage.signal(signal.SIGTERM)

    assert stage.ended() == 0


@pytest.mark.parametrize("moment", range(12))
def test_sigterm_at_any_moment_of_the_start_leaves_nothing(stage: Stage, tmp_path: Path, moment: int) -> None:
    sweep(stage, tmp_path, moment * 0.04)


@pytest.mark.full
@pytest.mark.parametrize("moment", range(50))
def test_sigterm_at_any_of_fifty_moments(stage: Stage, tmp_path: Path, moment: int) -> None:
    sweep(stage, tmp_path, moment * 0.02)


def sweep(stage: Stage, tmp_path: Path, after_s: float) -> None:
    """From the moment the supervisor has its signals (before it, the command line holds them back)."""
    stage.plan(8).start(ready=False)
    until(lambda: (tmp_path / "run" / "jobpool.lock").exists(), "lock taken")
    time.sleep(after_s)

    stage.signal(signal.SIGTERM)

    assert stage.ended(25) == 0
    assert not (tmp_path / "run" / "jobpool.sock").exists()
    assert children_of(stage.pid) == set()
    assert not [birth for birth in stage.births() if lives(birth["pid"])]


def test_a_stop_while_a_child_hangs_in_its_boot_takes_a_second(stage: Stage) -> None:
    stage.set("slow")
    stage.plan(2).start(ready=False)
    until(lambda: stage.state() == "starting" and len(children_of(stage.pid)) == 3, "booting")
    began = time.monotonic()

    stage.signal(signal.SIGTERM)

    assert stage.ended() == 0
    assert time.monotonic() - began < 20  # a job would have 30 s
