"""The README's table of signals, its middle column: each row at each phase of a supervisor's life.

What a row does to a worker is tried on real workers, in tests/house/test_signals.py.
"""

import re
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.helpers.until import until
from tests.supervisor.stage import Stage, Worker

README = Path(__file__).parents[2] / "README.md"
SIG = signal.Signals

PHASES = ("starting", "ready", "reloading", "stopping")


def bring_to(stage: Stage, phase: str) -> None:
    """Two workers, in this phase until the test lets it end (`let_end`)."""
    if phase == "starting":
        stage.set("slow")
        stage.plan(2).start(ready=False)
        stage.until_state("starting")
        until(lambda: all(worker["pid"] for worker in stage.workers()) and len(stage.workers()) == 2, "both forked")
        return
    stage.plan(2).start()
    if phase == "reloading":
        stage.set("slow")
        stage.change(fingerprint="b")
        stage.signal(SIG.SIGHUP)
        until(lambda: any(worker["state"] == "booting" for worker in stage.workers()), "an heir that is not ready")
    elif phase == "stopping":
        stage.tell(1, "job 600")
        stage.until_worker(1, state="busy")
        stage.signal(SIG.SIGTERM)
        stage.until_state("stopping")
        until(lambda: len(processes(stage)) == 1, "the idle one left")


def processes(stage: Stage) -> list[Worker]:
    return [worker for worker in stage.workers() if worker["pid"]]


def let_end(stage: Stage, phase: str, count: int = 2) -> None:
    """Whatever came meanwhile, the phase ends as it should."""
    if phase == "stopping":
        assert [worker["slot"] for worker in processes(stage)] == [1]
        assert stage.state() == "stopping"
        return
    if phase in ("starting", "reloading"):
        stage.unset("slow")
    stage.until_state("ready")
    stage.until_pids(count)


def stops(stage: Stage, phase: str, signum: int) -> None:
    stage.signal(signum)
    if phase == "stopping":
        time.sleep(0.7)  # the time in which a second one, wrongly taken, would kill
        assert [worker["state"] for worker in processes(stage)] == ["retiring"]
        return
    assert stage.ended() == 0
    assert "stopping why=" + SIG(signum).name in stage.log()


def term(stage: Stage, phase: str) -> None:
    stops(stage, phase, SIG.SIGTERM)


def interrupt(stage: Stage, phase: str) -> None:
    stops(stage, phase, SIG.SIGINT)
    if phase == "stopping":
        stage.signal(SIG.SIGINT)  # the second, and more than half a second later
        assert stage.ended(25) == 0
        assert "stopping at once" in stage.log()


def kill_now(stage: Stage, phase: str) -> None:
    stage.signal(SIG.SIGQUIT)
    assert stage.ended(25) == 0
    assert "stopping at once" in stage.log()


def hang_up(stage: Stage, phase: str) -> None:
    stage.change(count=3)
    stage.signal(SIG.SIGHUP)
    if phase != "stopping":
        until(lambda: len(stage.workers()) >= 3 or phase == "reloading", "the new count")
    let_end(stage, phase, count=3)
    if phase != "stopping":
        until(lambda: (stage.status()["pool"]["last_reload"] or {}).get("ok"), "a good reload")


def reopen(stage: Stage, phase: str) -> None:
    nothing_happens(stage, phase, SIG.SIGUSR1)


def roll(stage: Stage, phase: str) -> None:
    before = {worker["pid"] for worker in stage.workers()}
    stage.signal(SIG.SIGUSR2)
    if phase in ("starting", "reloading"):  # the slow ones were forked before: a roll replaces them when it can
        stage.unset("slow")
    if phase == "stopping":
        let_end(stage, phase)
    else:
        stage.until_pids(2, without=before)
        stage.until_state("ready")


def more_and_less(stage: Stage, phase: str) -> None:
    for signum in (SIG.SIGTTIN, SIG.SIGTTIN, SIG.SIGTTOU, SIG.SIGTTOU, SIG.SIGTTOU):
        stage.signal(signum)
        assert stage.ask("GET", "/healthz")[0] == 200  # it has been taken: two that wait are one to the kernel
    let_end(stage, phase, count=1)


def child(stage: Stage, phase: str) -> None:
    """It says that somebody may have ended; when nobody has, nothing happens. (Real ends: test_lives.)"""
    nothing_happens(stage, phase, SIG.SIGCHLD)


def nobodys(stage: Stage, phase: str) -> None:
    nothing_happens(stage, phase, SIG.SIGPIPE, SIG.SIGWINCH)


def nothing_happens(stage: Stage, phase: str, *signums: int) -> None:
    before = {worker["pid"] for worker in stage.workers()}
    for signum in signums:
        stage.signal(signum)
    assert stage.ask("GET", "/healthz")[0] == 200  # asked after the signal, so it has been taken
    assert {worker["pid"] for worker in stage.workers()} == before
    let_end(stage, phase)


ROWS: dict[str, Callable[[Stage, str], None]] = {
    "TERM": term,
    "INT": interrupt,
    "QUIT": kill_now,
    "HUP": hang_up,
    "USR1": reopen,
    "USR2": roll,
    "TTIN, TTOU": more_and_less,
    "CHLD": child,
    "PIPE, WINCH": nobodys,
}


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("row", ROWS)
def test_a_signal_does_to_the_parent_what_its_row_says_at_each_phase(stage: Stage, row: str, phase: str) -> None:
    bring_to(stage, phase)

    ROWS[row](stage, phase)


def rows_of_the_readme() -> dict[str, tuple[str, str]]:
    """Signal names → what stands for the parent and for a worker."""
    section = README.read_text().partition("## Signals")[2].partition("\n## ")[0]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if line[:1] == "|"]
    return {", ".join(re.findall(r"`([A-Z0-9]+)`", name)): (parent, worker) for name, parent, worker in cells[2:]}


def test_the_readme_lists_exactly_the_rows_that_are_tried() -> None:
    from tests.house.test_signals import WORKER_ROWS

    assert list(rows_of_the_readme()) == list(ROWS)
    assert sorted(WORKER_ROWS) == sorted(ROWS)
    assert all(parent and worker for parent, worker in rows_of_the_readme().values())


def test_every_signal_that_the_supervisor_heeds_has_a_row() -> None:
    from pool.supervisor.signals import HEEDED

    named = {f"SIG{name}" for row in ROWS for name in row.split(", ")}
    assert {SIG(signum).name for signum in HEEDED} <= named
