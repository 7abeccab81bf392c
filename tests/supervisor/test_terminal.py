"""A pool in the foreground of a terminal: the interrupt key, and the terminal's end."""

import os
import pty

from tests.helpers.until import until
from tests.supervisor.stage import Stage, lives


def start_in_terminal(stage: Stage) -> int:
    """The terminal's other end."""
    master, slave = pty.openpty()
    stage.start("setsid", "--ctty", stdin=slave)
    os.close(slave)
    return master


def test_one_key_press_lets_the_job_finish(stage: Stage) -> None:
    master = start_in_terminal(stage.plan(2))
    stage.tell(1, "job 1")

    os.write(master, b"\x03")

    assert stage.ended() == 0
    assert "killed_slots=none" in stage.log()
    assert "KeyboardInterrupt" not in stage.log()
    os.close(master)


def test_a_closed_terminal_stops_the_pool_and_leaves_no_orphan(stage: Stage) -> None:
    master = start_in_terminal(stage.plan(2))
    pids = stage.pids()

    os.close(master)

    assert stage.ended() == 0
    assert "the terminal was closed" in stage.log()
    until(lambda: not any(map(lives, pids)), "workers gone")
