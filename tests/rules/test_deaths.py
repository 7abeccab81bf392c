"""From a wait status to what is said of it: what was planned, what was a crash."""

import os
import signal
from pathlib import Path

import pytest

from pool.board.board import Board
from pool.board.record import Exit, Ordered, Role, State
from pool.seat import ChildSpec
from pool.supervisor.children import Child
from pool.supervisor.deaths import Ending, ending_of, is_planned, last_exit_of, next_zombie, note_of
from tests.helpers.stores import in_child


def status_of(act: str) -> int:
    """A real wait status."""
    pid = os.posix_spawn("/bin/sh", ["sh", "-c", act], {})
    return os.waitpid(pid, 0)[1]


def child(**facts: object) -> Child:
    record = Board(records=1).record(0)
    record.occupy(Role.WORKER, 1, 7, pid=0, group="workers", now=0.0)
    spec = ChildSpec(role=Role.WORKER, group="workers", count=1, run=lambda seat: 0, fingerprint="")
    made = Child(1, 7, spec, record, pid=4711)
    for name, value in facts.items():
        setattr(made, name, value)
    return made


def announce(made: Child, exit: Exit) -> Child:
    made.record.process.write(State.RETIRING, exit, 0.0, 0.0, 0.0, 0, 0, 0, 0)
    return made


def test_a_status_is_a_signal_or_a_code() -> None:
    coded, killed = ending_of(status_of("exit 3")), ending_of(status_of("kill -9 $$"))

    assert (coded.signal, coded.code) == (None, 3)
    assert (killed.signal, killed.code) == (signal.SIGKILL, None)


@pytest.mark.parametrize(
    "how", ["exit 0", "exit 3", "exit 255", "kill -9 $$", "kill -15 $$", "ulimit -c unlimited; kill -6 $$"]
)
def test_a_zombie_tells_what_waitpid_will_tell(how: str, tmp_path: Path) -> None:
    def look_and_reap() -> tuple[object, int, Ending]:
        os.chdir(tmp_path)  # for the core
        pid = os.posix_spawn("/bin/sh", ["sh", "-c", how], {})
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        return next_zombie(), pid, ending_of(os.waitpid(pid, 0)[1])

    found, pid, told = in_child(look_and_reap).result()
    assert found == (pid, told)


@pytest.mark.parametrize(
    ("told", "announced", "ending", "planned"),
    [
        (False, Exit.NONE, Ending(0, None, 0), False),  # code 0 alone is a death
        (False, Exit.NONE, Ending(0, None, 1), False),
        (False, Exit.NONE, Ending(15, 15, None), False),  # somebody else's SIGTERM, not heeded
        (False, Exit.MAX_JOBS, Ending(0, None, 0), True),
        (False, Exit.STOPPED, Ending(0, None, 0), True),
        (False, Exit.MAX_JOBS, Ending(9, 9, None), False),  # crashed after it had said goodbye
        (False, Exit.MAX_JOBS, Ending(0, None, 1), False),
        (True, Exit.NONE, Ending(0, None, 0), True),
        (True, Exit.NONE, Ending(15, 15, None), True),
        (True, Exit.NONE, Ending(11, 11, None), False),  # told to leave, crashed in its last job
        (True, Exit.STOPPED, Ending(15, 15, None), True),
    ],
)
def test_planned_is_what_was_ordered_or_announced_and_went_well(
    told: bool, announced: Exit, ending: Ending, planned: bool
) -> None:
    assert is_planned(child(was_told=told), ending, announced) is planned


def test_our_own_kill_at_a_stop_deadline_is_planned_and_one_for_a_timeout_is_not() -> None:
    killed = Ending(9, 9, None)

    assert is_planned(child(ordered=Ordered.STOP), killed, Exit.NONE)
    assert not is_planned(child(ordered=Ordered.TIMEOUT), killed, Exit.NONE)


def test_a_worker_that_became_ready_unnoticed_was_ready() -> None:
    made = child()
    made.record.process.write(State.IDLE, Exit.NONE, 0.0, 0.0, 0.0, 0, 0, 0, 0)

    exit = last_exit_of(made, Ending(9, 9, None), oom=False)

    assert exit.was_ready
    assert note_of(made, Ending(9, 9, None), exit).was_ready


def test_a_note_names_the_very_process_and_what_was_ordered() -> None:
    made = announce(child(ordered=Ordered.MEMORY, born_at=1.0), Exit.NONE)
    exit = last_exit_of(made, Ending(9, 9, None), oom=False)

    note = note_of(made, Ending(9, 9, None), exit)

    assert (note.pid, note.generation, note.status) == (4711, 7, 9)
    assert (note.ordered, note.planned, note.oom) == (Ordered.MEMORY, False, False)
