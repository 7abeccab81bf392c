"""Runs as root inside the lab, on a real systemd: installs the shipped unit and has accidents with it.

Prints `ok NAME` or `FAIL NAME: why` per scene; the journal of a failed one follows. Started by test_real_systemd.py.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

PROJECT = Path("/srv/project")
CONFIG = Path("/etc/jobpool/config.toml")
JOBPOOL = "/opt/jobpool/venv/bin/jobpool"
TASKS = """
import time, pool

@pool.job
def nap(seconds: float = 0.0) -> None:
    time.sleep(seconds)
"""


def sh(*words: str, check: bool = False, timeout: float = 120) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, capture_output=True, text=True, timeout=timeout, check=check, stdin=subprocess.DEVNULL)


def install(site_packages: str) -> None:
    """As README says, with the packages of the machine outside instead of pip, and a short watchdog."""
    sh("useradd", "--system", "--home-dir", "/nonexistent", "--shell", "/usr/sbin/nologin", "--user-group", "jobpool")
    program = Path(JOBPOOL)
    program.parent.mkdir(parents=True, exist_ok=True)
    program.write_text(
        f'#!/bin/sh\nPYTHONPATH={PROJECT}:{site_packages} PYTHONDONTWRITEBYTECODE=1 exec /usr/bin/python3 -m pool "$@"\n'
    )
    program.chmod(0o755)
    Path("/opt/jobpool/tasks.py").write_text(TASKS)
    Path("/opt/jobpool/slow.py").write_text("import time; time.sleep(2)")
    CONFIG.parent.mkdir(exist_ok=True)
    for name in ("jobpool.service", "jobpool@.service"):
        Path("/etc/systemd/system", name).write_text((PROJECT / "systemd" / name).read_text())
    dropin = Path("/run/systemd/system/jobpool.service.d/test.conf")
    dropin.parent.mkdir(parents=True)
    dropin.write_text(
        "[Unit]\nStartLimitIntervalSec=0\n[Service]\nWatchdogSec=3s\nRestartSec=100ms\nTimeoutStopSec=20s\n"
    )
    sh("systemctl", "daemon-reload", check=True)


def configure(
    count: int = 4, more: str = "", stop_timeout: float = 5, modules: str = '"tasks"', file: Path = CONFIG
) -> None:
    file.write_text(
        f"[pool]\nstop_timeout = {stop_timeout}\n[app]\nmodules = [{modules}]\n[workers]\ncount = {count}\n{more}"
    )


def unit(name: str) -> str:
    return sh("systemctl", "show", "--value", "-p", name, "jobpool").stdout.strip()


def status() -> dict[str, Any]:
    result = sh(JOBPOOL, "status", "--json", "--config", str(CONFIG))
    return json.loads(result.stdout) if result.returncode == 0 else {}


def working() -> int:
    return sum(worker["state"] in ("idle", "busy") for worker in status().get("workers", []))


def enqueue(number: int, seconds: float) -> None:
    code = f"import pool; c = pool.Client('sqlite:////var/lib/jobpool/jobpool.db'); c.enqueue_many([('tasks.nap', {{'seconds': {seconds}}})] * {number})"
    words = ["setpriv", "--reuid=jobpool", "--regid=jobpool", "--clear-groups", "/usr/bin/python3", "-c", code]
    environ = {**os.environ, "PYTHONPATH": f"{PROJECT}:{sys.argv[1]}:/opt/jobpool"}
    subprocess.run(words, env=environ, check=True, timeout=60, cwd="/opt/jobpool")


def completed() -> int:
    return int(status().get("totals", {}).get("completed", 0))


def until(fact: Callable[[], Any], what: str, within: float = 60) -> None:
    deadline = time.monotonic() + within
    while not fact():
        if time.monotonic() > deadline:
            raise AssertionError(f"{what} did not come true within {within:g} s")
        time.sleep(0.05)


def fresh(count: int = 4, **keys: Any) -> None:
    sh("systemctl", "stop", "jobpool")
    sh("systemctl", "reset-failed", "jobpool")
    configure(count, **keys)
    started = sh("systemctl", "start", "jobpool")
    assert started.returncode == 0, started.stderr


# ---------------------------------------------------------------- scenes


def scene_start_is_over_when_the_workers_are_ready() -> None:
    sh("systemctl", "stop", "jobpool")
    configure(4, modules='"tasks", "slow"')
    sh("systemctl", "start", "--no-block", "jobpool")
    until(lambda: unit("ActiveState") == "activating", "the start under way")
    until(lambda: status().get("pool", {}).get("state") == "starting", "the workers' import")
    assert unit("ActiveState") == "activating"
    assert sh("systemctl", "start", "jobpool").returncode == 0
    assert unit("ActiveState") == "active"
    assert working() == 4
    assert unit("StatusText").startswith("ready: 4 workers"), unit("StatusText")


def scene_reload_scales_up_and_down_and_loses_no_job() -> None:
    fresh(4)
    before = completed()
    enqueue(60, 0.05)
    for count in (8, 2):
        configure(count)
        assert sh("systemctl", "reload", "jobpool").returncode == 0
        until(lambda count=count: working() == count and len(status()["workers"]) == count, f"{count} workers")
    until(lambda: completed() == before + 60, "all jobs")


def scene_a_bad_file_fails_the_reload_and_is_named_in_the_status() -> None:
    fresh(3)
    configure(3, more="cuont = 5\n")
    assert sh("systemctl", "reload", "jobpool").returncode != 0
    until(lambda: "cuont" in unit("StatusText"), "the word in the status")
    assert "cuont" in sh("systemctl", "status", "--no-pager", "jobpool").stdout
    assert unit("ActiveState") == "active" and working() == 3


def scene_stop_lets_jobs_finish() -> None:
    fresh(2)
    before = completed()
    enqueue(2, 2.0)
    until(lambda: sum(w["state"] == "busy" for w in status()["workers"]) == 2, "two running jobs")
    assert sh("systemctl", "stop", "jobpool").returncode == 0
    assert unit("Result") == "success"
    fresh(1)
    until(lambda: completed() == before + 2, "the finished jobs")


def scene_stop_kills_after_the_deadline_and_the_job_comes_back() -> None:
    fresh(1, stop_timeout=1)
    enqueue(1, 600)
    until(lambda: any(w["state"] == "busy" for w in status()["workers"]), "the running job")
    started = time.monotonic()
    assert sh("systemctl", "stop", "jobpool").returncode == 0
    assert time.monotonic() - started < 15 and unit("Result") == "success"
    fresh(1, stop_timeout=1)
    until(lambda: any(w["state"] == "busy" for w in status()["workers"]), "the job, again")
    sh("systemctl", "stop", "jobpool")
    for file in Path("/var/lib/jobpool").iterdir():
        if file.is_file() or file.is_fifo():
            file.unlink()


def scene_a_stopped_supervisor_is_restarted_by_the_watchdog() -> None:
    fresh(2)
    restarts, pid = int(unit("NRestarts")), int(unit("MainPID"))
    os.kill(pid, signal.SIGSTOP)
    until(
        lambda: int(unit("NRestarts")) > restarts and unit("ActiveState") == "active" and working() == 2, "the restart"
    )


def scene_a_killed_supervisor_is_restarted_and_its_jobs_are_recovered() -> None:
    fresh(2)
    before = completed()
    enqueue(4, 1.0)
    until(lambda: sum(w["state"] == "busy" for w in status()["workers"]) == 2, "two running jobs")
    os.kill(int(unit("MainPID")), signal.SIGKILL)
    until(lambda: completed() == before + 4, "all jobs, each to its end")


def scene_the_journal_has_priorities() -> None:
    fresh(2)
    victim = next(w["pid"] for w in status()["workers"])
    os.kill(victim, signal.SIGKILL)
    until(lambda: working() == 2 and all(w["pid"] != victim for w in status()["workers"]), "the replacement")
    sh("journalctl", "--sync")
    lines = [json.loads(line) for line in sh("journalctl", "-b", "-u", "jobpool", "-o", "json").stdout.splitlines()]
    ours = [
        line
        for line in lines
        if line.get("SYSLOG_IDENTIFIER") == "jobpool" or str(line["MESSAGE"]).startswith(("INFO", "WARN", "ERR"))
    ]
    levels = {
        str(line["MESSAGE"]).split()[0]: line["PRIORITY"]
        for line in ours
        if str(line["MESSAGE"])[:4] in ("INFO", "WARN", "ERRO")
    }
    assert levels.get("INFO") == "6", levels
    assert levels.get("WARNING", "4") == "4" and levels.get("ERROR", "3") == "3", levels
    assert not any(str(line["MESSAGE"]).startswith("<") for line in lines)


def scene_the_hardening_is_rated_below_two() -> None:
    fresh(1)
    rated = sh("systemd-analyze", "security", "--no-pager", "jobpool").stdout.strip().splitlines()[-1]
    print(rated)
    assert float(rated.partition(":")[2].split()[0]) < 2.0


def scene_two_instances_live_side_by_side_with_files_of_their_own() -> None:
    for name, count in (("mail", 1), ("bulk", 2)):
        configure(count, file=Path(f"/etc/jobpool/{name}.toml"))
        started = sh("systemctl", "start", f"jobpool@{name}")
        assert started.returncode == 0, started.stderr
    texts = [
        sh("systemctl", "show", "--value", "-p", "StatusText", f"jobpool@{n}").stdout.strip() for n in ("mail", "bulk")
    ]
    assert [text.partition(",")[0] for text in texts] == ["ready: 1 workers", "ready: 2 workers"]
    assert sh("systemctl", "reload", "jobpool@mail").returncode == 0
    sh("systemctl", "stop", "jobpool@mail", "jobpool@bulk")


def main() -> int:
    install(sys.argv[1])
    failed = 0
    scenes = {name: scene for name, scene in globals().items() if name.startswith("scene_")}
    for name, scene in scenes.items():
        try:
            scene()
            print(f"ok {name}", flush=True)
        except Exception as error:
            failed += 1
            print(f"FAIL {name}: {type(error).__name__}: {error}", flush=True)
            print(sh("journalctl", "-b", "--no-pager", "-u", "jobpool", "-n", "30").stdout, flush=True)
    sh("systemctl", "stop", "jobpool")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
