"""The order in slow motion: stack, stop, look again, then kill or let go. A real process, no supervisor."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from pool.board.board import Board
from pool.board.lanes import Phase
from pool.board.record import Ordered, Role
from pool.clock import monotonic_now
from pool.seat import ChildSpec
from pool.supervisor.children import Child
from pool.supervisor.executions import Executions
from pool.supervisor.inspection import held_claim, still_overdue, still_started
from tests.helpers.until import until
from tests.supervisor.stage import lives

_SLEEPER = "import faulthandler, signal, sys, time; faulthandler.register(signal.SIGUSR2, file=int(sys.argv[1]), chain=False); print(flush=True); time.sleep(600)"


@pytest.fixture
def child() -> Iterator[Child]:
    stack_fd = os.memfd_create("stack")
    process = subprocess.Popen(
        [sys.executable, "-c", _SLEEPER, str(stack_fd)],
        stdout=subprocess.PIPE,
        pass_fds=[stack_fd],
        process_group=0,
    )
    assert process.stdout is not None
    process.stdout.readline()
    spec = ChildSpec(role=Role.WORKER, group="workers", count=1, run=lambda seat: 0, fingerprint="")
    yield Child(1, 1, spec, Board(records=1).record(0), stack_fd=stack_fd, pid=process.pid)
    process.kill()
    process.wait()
    process.stdout.close()
    os.close(stack_fd)


def carry_out(executions: Executions) -> None:
    def is_done() -> bool:
        executions.turn(monotonic_now())
        return executions.next_deadline(0.0) is None

    until(is_done, "the order is carried out")


def test_an_order_that_is_still_due_kills(child: Child) -> None:
    executions, outcome = Executions(), []

    executions.order(child, Ordered.TIMEOUT, lambda: True, outcome.append)
    carry_out(executions)

    until(lambda: not lives(child.pid), "killed")
    assert (child.ordered, outcome) == (Ordered.TIMEOUT, [True])
    assert b"most recent call first" in os.pread(child.stack_fd, 4096, 0)


def test_the_board_is_read_again_while_the_process_stands_still(child: Child) -> None:
    states = []

    def is_still_due() -> bool:
        states.append(open_state(child.pid))
        return False

    executions = Executions()
    executions.order(child, Ordered.TIMEOUT, is_still_due)
    carry_out(executions)

    assert states == ["T"]
    until(lambda: open_state(child.pid) == "S", "it goes on")
    assert child.ordered == Ordered.NONE


def test_a_process_has_at_most_one_order(child: Child) -> None:
    executions = Executions()

    assert executions.order(child, Ordered.TIMEOUT, lambda: False)
    assert not executions.order(child, Ordered.MEMORY, lambda: True)
    carry_out(executions)
    assert executions.order(child, Ordered.MEMORY, lambda: False)


def test_one_that_ends_by_itself_is_forgotten_and_the_asker_told(child: Child) -> None:
    executions, outcome = Executions(), []
    executions.order(child, Ordered.CANCEL, lambda: True, outcome.append)
    os.kill(child.pid, signal.SIGKILL)

    executions.forget(child)

    assert outcome == [False]
    assert executions.next_deadline(0.0) is None


def test_another_job_on_the_same_lane_is_another_claim_though_its_number_is_the_same(child: Child) -> None:
    """Claim numbers count per job: the first claim of every job is number 1."""
    lane = child.record.lanes[0].state

    def runs(job: bytes, claim: int, hard_deadline: float) -> None:
        lane.write(Phase.STARTED, claim, job, 0.0, hard_deadline, 0, b"t", b"q")

    runs(b"a" * 16, 1, 100.0)
    ordered = {0: held_claim(lane.read())}
    is_overdue, is_started = still_overdue(child, ordered), still_started(child, ordered)
    assert is_overdue()
    assert is_started()

    runs(b"a" * 16, 1, 0.0)  # its result is in hand
    assert not is_overdue()
    assert is_started()

    for job, claim in ((b"b" * 16, 1), (b"a" * 16, 2)):
        runs(job, claim, 100.0)
        assert not is_overdue()
        assert not is_started()


def open_state(pid: int) -> str:
    with open(f"/proc/{pid}/stat") as stat:
        return stat.read().rpartition(")")[2].split()[0]
