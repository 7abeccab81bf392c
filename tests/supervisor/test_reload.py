"""Reload, roll, scale, drain: the file against the pool, new before old, and what a bad file or a bad deploy leaves."""

import os
import signal
import socket
import threading
from pathlib import Path

import pytest

from tests.helpers.until import until
from tests.supervisor.stage import Stage
from tests.supervisor.test_orders import cgroup_of


def test_a_changed_count_is_applied_by_difference(stage: Stage) -> None:
    stage.plan(2).start()
    before = stage.pids()

    stage.change(count=5)
    assert stage.command("reload")[0] == 200
    assert before < stage.until_pids(5)

    stage.change(count=1)
    assert stage.command("reload")[0] == 200
    assert stage.until_pids(1) < before
    assert len([birth for birth in stage.births() if birth["slot"] < 9000]) == 5


def test_a_smaller_count_lets_idle_workers_go_and_busy_ones_finish(stage: Stage) -> None:
    stage.plan(3).start()
    stage.tell(1, "job 600")
    stage.until_worker(1, state="busy")
    busy = stage.worker(1)["pid"]

    stage.change(count=1)
    stage.command("reload")

    assert stage.until_pids(1) == {busy}


def test_a_busy_leaver_is_told_once_and_finishes(stage: Stage) -> None:
    stage.plan(2).start()
    for slot in (1, 2):
        stage.tell(slot, "job 600")
        stage.until_worker(slot, state="busy")
    pids = stage.pids()

    for _ in range(3):
        stage.command("scale", count=0)
    for slot in (1, 2):
        stage.tell(slot, "end")

    until(lambda: not stage.workers(), "all left")
    for pid in pids:
        assert stage.until_note(pid)["planned"] == 1
        assert stage.until_note(pid)["started"] == {}


def test_an_identical_reload_touches_nobody(stage: Stage) -> None:
    stage.plan(3).start()
    before = stage.pids()

    for _ in range(5):
        stage.signal(signal.SIGHUP)
        assert stage.command("reload") == (200, {"ok": True, "done": True, "changes": []})

    assert stage.pids() == before
    assert len(stage.births()) == 4


def test_an_unchanged_count_leaves_what_scale_has_set_and_a_changed_one_beats_it(stage: Stage) -> None:
    stage.plan(2).start()
    stage.command("scale", count=4)
    stage.until_pids(4)

    stage.command("reload")
    assert stage.status()["groups"][0]["count"] == 4

    stage.change(count=3)
    stage.command("reload")
    stage.until_pids(3)
    assert stage.status()["groups"][0]["source"] == "file"


@pytest.mark.parametrize("text", ['{"error": "workers.cuont: unknown key, did you mean count?"}', "{not json"])
def test_a_bad_file_changes_nothing_and_is_reported(stage: Stage, text: str) -> None:
    stage.plan(2).start()
    before = stage.pids()
    good = (stage.scene / "plan.json").read_text()
    (stage.scene / "plan.json").write_text(text)

    code, answer = stage.command("reload")

    assert code == 409
    reload = stage.status()["pool"]["last_reload"]
    assert reload["ok"] is False
    assert answer["error"] == reload["error"]
    assert stage.pids() == before
    assert stage.state() == "ready"

    (stage.scene / "plan.json").write_text(good)
    assert stage.command("reload")[0] == 200


def test_any_other_change_rolls_the_workers_new_before_old(stage: Stage) -> None:
    stage.plan(4).start()
    before = stage.pids()
    least = 4

    stage.change(fingerprint="b")
    stage.command("reload")
    while stage.pids() & before or stage.state() == "reloading":
        least = min(least, len([worker for worker in stage.workers() if worker["state"] in ("idle", "busy")]))

    assert least == 4
    assert len(stage.until_pids(4, without=before)) == 4


def test_a_roll_replaces_at_most_a_quarter_at_a_time(stage: Stage) -> None:
    stage.plan(4).start()
    stage.change(fingerprint="b")
    code, _ = stage.command("reload", wait=True)
    assert code == 200

    most = max(line.count("child started") for line in stage.log().partition("pool is ready")[2].split("child ready"))
    assert most == 1


def test_a_broken_deploy_leaves_all_old_workers_and_says_why(stage: Stage) -> None:
    stage.plan(4).start()
    before = stage.pids()
    stage.set("broken")

    code, answer = stage.command("reload", rolling=True)

    assert code == 409
    assert "No module named 'tasks'" in answer["error"]
    assert stage.pids() == before
    assert stage.status()["pool"]["last_reload"]["ok"] is False
    assert stage.state() == "ready"

    stage.unset("broken")
    assert stage.command("reload", rolling=True, wait=True)[0] == 200
    stage.until_pids(4, without=before)


def test_a_repaired_deploy_ends_the_backoff_of_the_crashed(stage: Stage) -> None:
    stage.plan(2, first_delay=600.0, max_delay=600.0).start()
    os.kill(stage.worker(1)["pid"], signal.SIGKILL)
    until(lambda: stage.worker(1)["pid"] is None, "in backoff")

    assert stage.command("reload", rolling=True, wait=True)[0] == 200

    stage.until_pids(2)


def test_reload_answers_at_the_first_new_worker_though_an_old_one_works_on(stage: Stage) -> None:
    stage.plan(2).start()
    stage.tell(1, "job 600")
    old = stage.until_worker(1, state="busy")

    code, _ = stage.command("reload", rolling=True)

    assert code == 200
    stage.until_state("ready")
    leaver = next(worker for worker in stage.workers() if worker["pid"] == old["pid"])
    assert leaver["state"] == "retiring"
    assert len(stage.pids()) == 2


def test_retire_timeout_bounds_a_leaver(stage: Stage) -> None:
    stage.plan(1, retire_timeout=0.5).start()
    victim = stage.worker(1)
    stage.tell(1, "job 600")
    stage.until_worker(1, state="busy")

    stage.command("restart", slot=1)

    assert stage.until_note(victim["pid"])["ordered"] == 1


def test_a_keeper_is_replaced_without_a_gap(stage: Stage) -> None:
    stage.plan(1).start()
    before = stage.status()["keeper"]["pid"]

    stage.change("keeper", fingerprint="b")
    assert stage.command("reload", wait=True)[0] == 200

    until(lambda: stage.status()["keeper"]["pid"] != before, "new keeper")
    assert stage.status()["keeper"]["state"] == "idle"


def test_groups_come_and_go(stage: Stage) -> None:
    stage.plan(1).start()

    stage.group("bulk", count=2)
    stage.command("reload")
    until(lambda: len(stage.pids("bulk")) == 2, "new group")

    del stage.specs["bulk"]
    stage.write_plan()
    stage.command("reload")
    until(lambda: not stage.workers("bulk"), "group gone")
    assert [group["name"] for group in stage.status()["groups"]] == ["workers"]


def test_more_lanes_than_reserved_are_refused_in_words(stage: Stage) -> None:
    stage.plan(1).start()
    stage.change(lanes=8)

    code, answer = stage.command("reload")

    assert code == 409
    assert "start jobpool again" in answer["error"]


def test_a_storm_of_reloads_ends_with_the_right_count(stage: Stage) -> None:
    stage.plan(2).start()
    for round in range(200):
        if round % 10 == 0:
            stage.change(count=6 if round % 20 else 2)
        stage.signal(signal.SIGHUP)
    stage.change(count=3)
    stage.signal(signal.SIGHUP)

    stage.until_pids(3)
    stage.until_state("ready")
    assert all(worker["restarts"] == 0 for worker in stage.workers())


def test_a_growing_count_never_overshoots(stage: Stage) -> None:
    stage.plan(1).start()
    most = 0
    stage.change(count=5)
    stage.signal(signal.SIGHUP)

    while len(stage.pids()) < 5:
        most = max(most, len(stage.workers()))

    assert max(most, len(stage.workers())) == 5


def test_ttin_and_ttou_add_and_take_one_each(stage: Stage) -> None:
    stage.plan(2).start()

    for count in (3, 4, 5):  # two pending signals of one number are one to the kernel
        stage.signal(signal.SIGTTIN)
        until(lambda count=count: stage.status()["groups"][0]["count"] == count, "one more")
    stage.until_pids(5)

    stage.signal(signal.SIGTTOU)
    stage.until_pids(4)
    assert stage.status()["groups"][0]["source"] == "scale"


def test_usr2_rolls_all_workers(stage: Stage) -> None:
    stage.plan(2).start()
    before = stage.pids()

    stage.signal(signal.SIGUSR2)

    stage.until_pids(2, without=before)


def test_drained_workers_stay_up_and_are_told_so(stage: Stage) -> None:
    stage.plan(2).start()
    before = stage.pids()

    assert stage.command("drain")[1] == {"groups": ["workers"], "draining": True}
    stage.until_state("draining")
    stage.command("scale", count=3)
    stage.until_pids(3)

    assert stage.command("undrain")[0] == 200
    stage.until_state("ready")
    assert before <= stage.pids()


def test_restart_of_one_slot_replaces_that_one(stage: Stage) -> None:
    stage.plan(3).start()
    others = stage.pids() - {stage.worker(2)["pid"]}
    before = stage.worker(2)

    assert stage.command("restart", slot=2)[0] == 200

    heir = stage.until_replaced(before)
    assert stage.until_pids(3) == others | {heir["pid"]}
    assert heir["restarts"] == 0


@pytest.mark.parametrize(
    ("verb", "options", "code"),
    [
        ("scale", {"count": -1}, 422),
        ("scale", {"count": "many"}, 422),
        ("scale", {"count": 2, "group": "nobody"}, 404),
        ("scale", {}, 422),
        ("restart", {"slot": 77}, 404),
        ("stack", {"slot": 77}, 404),
        ("reload", {"fast": True}, 422),
        ("drain", {"group": "nobody"}, 404),
        ("kill", {"job": "0190b8f0-0000-7000-8000-000000000000"}, 404),
        ("kill", {}, 422),
    ],
)
def test_a_wrong_command_is_refused_with_a_sentence(
    stage: Stage, verb: str, options: dict[str, object], code: int
) -> None:
    stage.plan(1).start()

    answer = stage.command(verb, **options)

    assert answer[0] == code
    assert answer[1]["error"]


def test_stack_shows_what_a_worker_is_doing(stage: Stage) -> None:
    stage.plan(1).start()

    for _ in range(2):
        code, answer = stage.command("stack", slot=1)
        assert code == 200
        assert answer["stack"].count("most recent call first") == 1
        assert "puppet.py" in answer["stack"]


def test_a_stopping_pool_takes_no_reload(stage: Stage) -> None:
    stage.plan(1).start()
    stage.tell(1, "job 600")
    stage.signal(signal.SIGTERM)
    stage.until_state("stopping")

    stage.signal(signal.SIGHUP)
    stage.signal(signal.SIGTTIN)

    assert stage.command("reload")[0] == 409
    stage.tell(1, "end")
    assert stage.ended() == 0


def test_each_reload_is_told_to_systemd_and_ends_in_ready(stage: Stage, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notified:
        notified.bind(str(tmp_path / "notify"))
        notified.settimeout(60)
        words: list[str] = []

        def hear(word: str) -> list[str]:
            while not words or words[-1] != word:
                message = notified.recv(4096).decode()
                words.extend(line for line in message.splitlines() if line in ("READY=1", "RELOADING=1", "STOPPING=1"))
            return words

        stage.plan(1).start(env={"NOTIFY_SOCKET": str(tmp_path / "notify")})
        hear("READY=1")
        stage.write_plan(error="no")
        stage.signal(signal.SIGHUP)
        hear("RELOADING=1")
        hear("READY=1")
        stage.signal(signal.SIGTERM)
        assert hear("STOPPING=1") == ["READY=1", "RELOADING=1", "READY=1", "STOPPING=1"]


def test_a_ready_keeper_does_not_decide_a_broken_deploy(stage: Stage) -> None:
    stage.plan(2).start()
    before = stage.pids()
    keeper = stage.status()["keeper"]["pid"]
    stage.change(fingerprint="b")
    stage.change("keeper", fingerprint="b")
    stage.set("broken")

    assert stage.command("reload")[0] == 409

    assert stage.pids() == before
    assert stage.status()["keeper"]["pid"] == keeper


def test_after_a_broken_deploy_a_dead_worker_comes_back_by_the_old_plan(stage: Stage) -> None:
    stage.plan(2).start()
    stage.set("broken")
    stage.change(fingerprint="b", boot_timeout=77.0)
    stage.command("reload")
    stage.unset("broken")
    victim = stage.worker(1)

    os.kill(victim["pid"], signal.SIGKILL)

    stage.until_replaced(victim)
    stage.change(fingerprint="b")
    assert stage.command("reload")[1]["changes"] == ["workers: changed"]


def test_a_broken_deploy_with_a_smaller_count_costs_no_worker(stage: Stage) -> None:
    stage.plan(4).start()
    before = stage.pids()
    stage.set("broken")
    stage.change(fingerprint="b", count=1)

    assert stage.command("reload")[0] == 409
    assert stage.pids() == before

    stage.unset("broken")
    assert stage.command("reload", wait=True)[0] == 200
    stage.until_pids(1, without=before)


def test_a_roll_with_a_larger_count_ends_with_all_new(stage: Stage) -> None:
    stage.plan(2).start()
    before = stage.pids()

    stage.change(fingerprint="b", count=5)
    assert stage.command("reload", wait=True)[0] == 200

    stage.until_pids(5, without=before)


# ---------------------------------------------------------------- rolls that are stuck


def stuck_roll(stage: Stage, count: int = 3) -> set[int]:
    """A roll that has replaced its first worker and then waits for memory, which busy leavers keep; the first pids."""
    cgroup_of(stage, limit_mb=1000, used_mb=999)
    stage.plan(count, memory={"check_seconds": 0.1}).start()
    until(lambda: all(worker["rss_bytes"] for worker in stage.workers()), "measured")
    first = stage.pids()
    for slot in range(1, count + 1):
        stage.tell(slot, "job 600")
        stage.until_worker(slot, state="busy")
    assert stage.command("reload", rolling=True)[0] == 200
    until(lambda: "replacements wait for memory" in str(stage.status()["pool"]["problems"]), "stuck")
    return first


def test_a_reload_is_answered_and_takes_effect_though_the_roll_before_waits_for_memory(stage: Stage) -> None:
    first = stuck_roll(stage)

    stage.change(count=5)
    code, answer = stage.command("reload")

    assert (code, answer["done"]) == (200, False)
    assert any("5" in change for change in answer["changes"])
    until(lambda: len([w for w in stage.workers() if w["state"] in ("idle", "busy")]) == 5, "the new count")
    assert stage.state() == "reloading"
    cgroup_of(stage, limit_mb=1000, used_mb=100)
    stage.until_state("ready")
    assert stage.status()["pool"]["last_reload"]["ok"]
    assert not stage.pids() & first


def test_a_bad_file_is_refused_though_the_roll_before_waits_and_that_one_goes_on(stage: Stage) -> None:
    first = stuck_roll(stage)
    good = (stage.scene / "plan.json").read_text()

    (stage.scene / "plan.json").write_text("{")
    code, answer = stage.command("reload")

    assert code == 409
    assert stage.state() == "reloading"
    assert stage.status()["pool"]["last_reload"]["error"] == answer["error"]
    (stage.scene / "plan.json").write_text(good)
    cgroup_of(stage, limit_mb=1000, used_mb=100)
    stage.until_state("ready")
    assert not stage.pids() & first
    assert not stage.status()["pool"]["last_reload"]["ok"]  # the later word stands until the next reload
    assert stage.command("reload")[0] == 200
    assert stage.status()["pool"]["last_reload"]["ok"]


def test_a_broken_deploy_upon_a_roll_that_waits_leaves_that_roll_to_go_on(stage: Stage) -> None:
    first = stuck_roll(stage)
    proved = stage.pids() - first

    stage.set("broken")
    asked = Asked(stage, "reload", rolling=True, wait=True)
    until(lambda: stage.command("reload", rolling=True)[0] == 202, "under way, and waiting for memory too")
    cgroup_of(stage, limit_mb=1000, used_mb=100)
    code, answer = asked.answer()
    stage.unset("broken")

    assert code == 409, answer
    assert "did not become ready" in str(answer["error"])
    until(lambda: not stage.pids() & first, "the roll before has ended")
    assert proved <= stage.pids()
    assert not stage.status()["pool"]["last_reload"]["ok"]


def test_who_asks_for_a_reload_whose_first_new_worker_must_wait_is_told_so(stage: Stage) -> None:
    cgroup_of(stage, limit_mb=1000, used_mb=999)
    stage.plan(2, memory={"check_seconds": 0.1}).start()
    until(lambda: all(worker["rss_bytes"] for worker in stage.workers()), "measured")
    stage.tell(1, "job 600")
    stage.until_worker(1, state="busy")
    assert stage.command("restart", slot=1)[0] == 200  # its leaver works on, and keeps its memory
    stage.until_state("ready")

    code, answer = stage.command("reload", rolling=True)

    assert (code, answer["ok"], answer["done"]) == (202, True, False)
    assert "not proved by a new worker yet: replacements wait for memory" in answer["message"]
    stage.change(count=3)
    assert stage.command("reload")[0] == 202
    stage.until_worker(3, state="idle")
    cgroup_of(stage, limit_mb=1000, used_mb=100)
    stage.until_state("ready")
    assert stage.status()["pool"]["last_reload"]["ok"]


def test_a_group_removed_while_its_roll_is_stuck_takes_nobody_with_it(stage: Stage) -> None:
    """Its larger count was held back until new code was proved, and the way back would have led to it too."""
    cgroup_of(stage, limit_mb=1000, used_mb=999)
    stage.plan(1, memory={"check_seconds": 0.1}).group("more", count=2, memory={"check_seconds": 0.1}).start()
    until(lambda: all(worker["rss_bytes"] for worker in stage.workers()), "measured")
    stage.tell(1, "job 600")
    stage.until_worker(1, state="busy")
    assert stage.command("restart", slot=1)[0] == 200
    stage.until_state("ready")

    stage.change("more", fingerprint="new", count=4)
    assert stage.command("reload")[0] == 202
    del stage.specs["more"]
    stage.change(fingerprint="newer")
    stage.set("broken")
    assert stage.command("reload")[0] == 202
    asked = Asked(stage, "reload", wait=True)
    cgroup_of(stage, limit_mb=1000, used_mb=100)

    assert asked.answer()[0] in (200, 409)
    stage.unset("broken")
    assert stage.command("reload", wait=True)[0] == 200
    stage.until_state("ready")
    assert {worker["group"] for worker in stage.status()["workers"]} == {"workers"}


class Asked:
    """A command whose answer may be long in coming."""

    def __init__(self, stage: Stage, verb: str, **options: object) -> None:
        self._answers: list[tuple[int, dict[str, object]]] = []
        self._thread = threading.Thread(target=lambda: self._answers.append(stage.command(verb, **options)))
        self._thread.start()

    def answer(self) -> tuple[int, dict[str, object]]:
        self._thread.join(60)
        return self._answers[0]
