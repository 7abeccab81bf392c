"""Births and deaths: what a child is born with, how its end is told, when its place is filled again."""

import os
import signal
from pathlib import Path

import pytest

from tests.helpers.until import until
from tests.supervisor.stage import Stage, children_of, lives, open_descriptors, zombies_of


def test_all_planned_children_become_ready(stage: Stage) -> None:
    stage.plan(4).start()

    assert [worker["state"] for worker in stage.workers()] == ["idle"] * 4
    assert [worker["slot"] for worker in stage.workers()] == [1, 2, 3, 4]
    assert stage.status()["keeper"]["state"] == "idle"


def test_a_killed_worker_is_replaced_and_the_others_are_untouched(stage: Stage) -> None:
    stage.plan(3).start()
    others = stage.pids() - {stage.worker(2)["pid"]}
    victim = stage.worker(2)

    os.kill(victim["pid"], signal.SIGKILL)

    heir = stage.until_replaced(victim)
    assert heir["restarts"] == 1
    assert heir["last_exit"]["cause"] == "signal 9, not sent by jobpool"
    assert stage.pids() == others | {heir["pid"]}


@pytest.mark.parametrize(
    ("word", "cause"),
    [
        ("exit 0", "exit code 0"),
        ("exit 1", "exit code 1"),
        ("raise", "exit code 70"),
        ("die SIGSEGV", "signal 11, not sent by jobpool"),
        ("die SIGABRT", "signal 6, not sent by jobpool"),
    ],
)
def test_every_unannounced_end_is_a_death_told_to_the_keeper(stage: Stage, word: str, cause: str) -> None:
    stage.plan(2).start()
    victim = stage.worker(1)

    stage.tell(1, word)

    assert stage.until_replaced(victim)["last_exit"]["cause"] == cause
    note = stage.until_note(victim["pid"])
    assert (note["planned"], note["was_ready"], note["ordered"]) == (0, 1, 0)


def test_a_crash_leaves_its_traceback_without_secrets(stage: Stage) -> None:
    stage.plan(1).start()
    victim = stage.worker(1)

    stage.tell(1, "raise")

    remark = stage.until_replaced(victim)["last_exit"]["remark"]
    assert "RuntimeError: the puppet's strings are cut" in remark
    assert "hunter2" not in remark
    assert "hunter2" not in stage.log()


def test_a_job_in_hand_at_the_end_is_named_in_the_note(stage: Stage) -> None:
    stage.plan(1).start()
    victim = stage.worker(1)
    stage.tell(1, "job 600")

    os.kill(victim["pid"], signal.SIGKILL)

    assert stage.until_note(victim["pid"])["started"] == {"0": 1}


@pytest.mark.parametrize("exit", ["MAX_JOBS", "MAX_AGE", "MEMORY"])
def test_an_announced_exit_waits_for_its_heir_and_is_no_death(stage: Stage, exit: str) -> None:
    stage.plan(2).start()
    leaver = stage.worker(1)

    stage.tell(1, f"announce {exit}")

    heir = stage.until_replaced(leaver)
    note = stage.until_note(leaver["pid"])
    assert (note["planned"], note["ordered"]) == (1, 0)
    assert heir["restarts"] == 0
    births = {birth["generation"]: birth for birth in stage.births() if birth["slot"] == 1}
    assert births[2]["pid"] == heir["pid"]


def test_a_barred_worker_is_replaced_though_it_leaves_at_once(stage: Stage) -> None:
    stage.plan(1).start()
    leaver = stage.worker(1)

    stage.tell(1, "announce BARRED")

    assert stage.until_replaced(leaver)["restarts"] == 0


def test_a_child_is_born_clean(stage: Stage) -> None:
    variables = {"NOTIFY_SOCKET": "/nonexistent/notify", "LISTEN_FDS": "1", "WATCHDOG_USEC": "30000000"}
    stage.plan(4).start(env=variables)

    births = [birth for birth in stage.births() if birth["slot"] < 9000]
    for birth in births:
        assert birth["group"] == birth["pid"]
        assert birth["environ"] == dict.fromkeys(birth["environ"])
        assert birth["blocked"] == []
        assert birth["wakeup_fd"] == -1
        assert birth["oom"] > 0
        assert set(birth["open"]) >= {"0", "1", "2"}
        own = sorted(link.partition(":")[0] for fd, link in birth["open"].items() if int(fd) > 2)
        # where its stacks go and its start lock is, how it announces itself and wakes the keeper
        assert own == ["/memfd", "/memfd", "pipe", "pipe"]
    assert len({birth["random"] for birth in births}) == 4


def test_signals_that_people_send_by_name_leave_children_alone(stage: Stage) -> None:
    stage.plan(1).start()
    before = stage.pids()
    names = ("SIGHUP", "SIGINT", "SIGUSR1", "SIGUSR2", "SIGWINCH", "SIGPIPE", "SIGTTIN", "SIGTTOU", "SIGURG", "SIGCHLD")

    for name in names:
        os.kill(*before, getattr(signal, name))

    stage.tell(1, "store")  # it still reads its orders
    assert stage.pids() == before


def test_children_of_a_killed_parent_leave(stage: Stage) -> None:
    stage.plan(3).start()
    pids = stage.pids()

    stage.process.kill()
    stage.ended()

    until(lambda: not any(map(lives, pids)), "workers gone")


def test_if_every_worker_fails_to_boot_the_pool_ends_with_78_and_says_why(stage: Stage) -> None:
    stage.set("broken")

    stage.plan(3).start(ready=False)

    assert stage.ended() == 78
    assert "failure: ModuleNotFoundError: No module named 'tasks'" in stage.log()
    assert children_of(stage.pid) == set()


def test_a_place_that_keeps_failing_is_parked_and_the_rest_work_on(stage: Stage) -> None:
    stage.set("broken-bulk")
    stage.plan(2).group("bulk", count=1, max_delay=600.0, first_delay=0.02)

    stage.start(ready=False)

    until(lambda: stage.state() == "degraded" and stage.workers("bulk")[0]["state"] == "parked", "parked")
    parked = stage.workers("bulk")[0]
    assert "No module named 'tasks'" in parked["why"]
    assert parked["next_start_s"] > 500
    assert len(stage.pids()) == 2
    assert any("is parked" in problem for problem in stage.status()["pool"]["problems"])


def test_a_child_that_is_not_ready_in_time_is_killed_and_tried_again(stage: Stage) -> None:
    stage.plan(1).start()
    stage.set("slow")
    stage.change(boot_timeout=0.3)
    stage.command("reload")
    victim = stage.worker(1)
    os.kill(victim["pid"], signal.SIGKILL)

    until(lambda: stage.worker(1)["restarts"] >= 3, "two failed boots")
    assert stage.worker(1)["last_exit"]["cause"] == "signal 9, sent by jobpool (boot)"

    stage.unset("slow")
    stage.change(boot_timeout=30.0)
    stage.command("reload")
    stage.until_state("ready")


def test_what_a_killed_worker_started_is_ended_with_it(stage: Stage) -> None:
    """Also the process that left the group: the supervisor is a subreaper and knows its mark."""
    stage.plan(1).start()
    stage.tell(1, "spawn")
    in_group, in_own_session = stage.spawned()
    victim = stage.worker(1)

    os.kill(victim["pid"], signal.SIGKILL)

    stage.until_replaced(victim)
    until(lambda: not lives(in_group) and not lives(in_own_session), "grandchildren gone")


def test_an_orphan_of_a_living_worker_is_left_alone_and_reaped_in_the_end(stage: Stage) -> None:
    stage.plan(1).start()
    stage.tell(1, "daemon")
    (orphan,) = stage.spawned()
    until(lambda: orphan in children_of(stage.pid), "adopted")

    os.kill(orphan, signal.SIGKILL)

    until(lambda: orphan not in children_of(stage.pid), "reaped")
    assert stage.worker(1)["restarts"] == 0
    assert stage.state() == "ready"


def test_restarts_cost_no_descriptor_and_leave_no_zombie(stage: Stage) -> None:
    """A quick version; the long one makes a thousand."""
    restart_many_times(stage, 100)


@pytest.mark.full
def test_a_thousand_restarts_cost_no_descriptor(stage: Stage) -> None:
    restart_many_times(stage, 1000)


def restart_many_times(stage: Stage, times: int) -> None:
    stage.plan(2, first_delay=0.001, max_delay=0.001).start()
    before = open_descriptors(stage.pid)

    for _ in range(times):
        victim = stage.until_worker(1, state="idle")
        os.kill(victim["pid"], signal.SIGKILL)
        stage.until_replaced(victim)

    until(lambda: open_descriptors(stage.pid) <= before + 2, "no descriptor more")
    until(lambda: not zombies_of(stage.pid), "no zombie")
    births = [birth for birth in stage.births() if birth["slot"] == 1]
    assert len(births[-1]["open"]) == len(births[0]["open"])


def test_a_second_supervisor_is_refused_by_name_and_the_first_is_untouched(stage: Stage, tmp_path: Path) -> None:
    stage.plan(1).start()
    first = stage.process
    inode = os.stat(tmp_path / "run" / "jobpool.sock").st_ino

    stage.start(ready=False)

    assert stage.ended() == 78
    assert f"(pid {first.pid}) runs in {tmp_path / 'run'}" in stage.log()
    stage.process = first
    assert stage.state() == "ready"
    assert os.stat(tmp_path / "run" / "jobpool.sock").st_ino == inode


def test_leftovers_of_a_killed_supervisor_do_not_block_the_next(stage: Stage) -> None:
    stage.plan(1).start()
    stage.process.kill()
    stage.ended()

    stage.start()

    assert len(stage.pids()) == 1


def test_as_pid_1_strangers_are_reaped_and_not_counted(stage: Stage) -> None:
    stage.plan(1)
    try:
        stage.start("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")
    except AssertionError:
        pytest.skip("no permission for a pid namespace")
    stage.tell(1, "daemon")
    stage.spawned()
    assert stage.worker(1)["restarts"] == 0

    (inner,) = children_of(stage.pid)
    os.kill(inner, signal.SIGTERM)

    assert stage.ended() == 0


def test_no_child_is_forked_while_the_parent_has_threads(stage: Stage) -> None:
    stage.set("threads")
    stage.plan(1).start(ready=False)
    until(lambda: stage.state() == "starting" and stage.status()["pool"]["problems"], "refusal")
    assert "has 2 threads" in stage.status()["pool"]["problems"][0]
    assert stage.births() == []

    stage.unset("threads")

    stage.until_state("ready")
    assert stage.status()["pool"]["problems"] == []


def test_a_burst_ends_when_its_workers_have_nothing_left(stage: Stage) -> None:
    stage.plan(2, burst=True).start()

    stage.tell(1, "announce BURST_DONE")
    until(lambda: [worker["slot"] for worker in stage.workers()] == [2], "one is done and not replaced")
    stage.tell(2, "announce BURST_DONE")

    assert stage.ended() == 0


def test_a_burst_in_which_a_worker_died_ends_with_1(stage: Stage) -> None:
    stage.plan(1, burst=True).start()
    victim = stage.worker(1)
    os.kill(victim["pid"], signal.SIGKILL)
    stage.until_replaced(victim)

    stage.tell(1, "announce BURST_DONE")

    assert stage.ended() == 1


def test_of_a_hundred_deaths_each_is_told_once(stage: Stage) -> None:
    stage.plan(4, first_delay=0.001, max_delay=0.001).start()

    pids = stage.until_pids(4)
    for _ in range(25):
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        pids = stage.until_pids(4, without=pids)

    until(lambda: len(stage.notes()) == 100, "every death has been told")
    assert len({note["pid"] for note in stage.notes()}) == 100


def test_closed_standard_descriptors_hurt_nobody(stage: Stage) -> None:
    stage.plan(1).start("sh", "-c", 'exec "$@" 0<&- 1>&- 2>&-', "sh")

    births = [birth for birth in stage.births() if birth["slot"] == 1]
    assert [births[0]["open"][fd] for fd in "012"] == ["/dev/null"] * 3
    stage.signal(signal.SIGTERM)
    assert stage.ended() == 0
