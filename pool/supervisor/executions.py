"""Kills that must not hit the wrong job: for a timeout, for memory, for a cancel, for silence.

Every order names its claim. Between the decision and the signal the worker may have settled that job and begun another,
so it is stopped first, the board is read again while nothing moves, and only then is it killed or let go on.
"""

import os
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, auto

from pool.board.record import Ordered
from pool.clock import monotonic_now
from pool.logs import log
from pool.supervisor.children import Child
from pool.supervisor.deaths import ask_for_stack, kill_group, read_stack, send, stack_size
from pool.supervisor.descendants import below, kill_kin, process_table

# faulthandler needs a moment, and a process that is to be stopped first runs no handler.
STACK_WITHIN_S = 0.5
# A process in an uninterruptible call does not stop; its order stands on the board unchanged, so it is killed then.
STOPPED_WITHIN_S = 1.0
_POLL_S = 0.02


class Step(Enum):
    WRITING_STACK = auto()
    STOPPING = auto()


@dataclass(slots=True)
class Execution:
    """An order under way. `is_still_due` reads the board again; it must answer for the very claim that was meant."""

    child: Child
    order: Ordered
    is_still_due: Callable[[], bool]
    step: Step
    until: float
    stack_bytes: int = 0
    on_end: Callable[[bool], None] | None = None


class Executions:
    """All orders under way, at most one per process."""

    def __init__(self) -> None:
        self._open: dict[int, Execution] = {}

    def order(
        self,
        child: Child,
        order: Ordered,
        is_still_due: Callable[[], bool],
        on_end: Callable[[bool], None] | None = None,
    ) -> bool:
        """Begin; False when the process already has an order. `on_end` learns whether it was killed."""
        if child.pid in self._open or child.ordered != Ordered.NONE:
            return False
        until = monotonic_now() + STACK_WITHIN_S
        execution = Execution(child, order, is_still_due, Step.WRITING_STACK, until, on_end=on_end)
        self._open[child.pid] = execution
        ask_for_stack(child)
        return True

    def turn(self, now: float) -> None:
        """Take each order as far as it can go now."""
        for execution in list(self._open.values()):
            if execution.step is Step.WRITING_STACK and _is_stack_written(execution, now):
                send(execution.child, signal.SIGSTOP)
                execution.step, execution.until = Step.STOPPING, now + STOPPED_WITHIN_S
            if execution.step is Step.STOPPING and (_is_stopped(execution.child.pid) or now >= execution.until):
                self._decide(execution)

    def next_deadline(self, now: float) -> float | None:
        """Soon while an order is under way."""
        return now + _POLL_S if self._open else None

    def forget(self, child: Child) -> None:
        """The process was reaped, by our hand or another's."""
        execution = self._open.pop(child.pid, None)
        if execution is not None and execution.on_end is not None:
            execution.on_end(False)

    def _decide(self, execution: Execution) -> None:
        del self._open[execution.child.pid]
        is_due = execution.is_still_due()
        if is_due:
            kill_by_order(execution.child, execution.order)
        else:
            send(execution.child, signal.SIGCONT)
        if execution.on_end is not None:
            execution.on_end(is_due)


def kill_by_order(child: Child, order: Ordered) -> None:
    """SIGKILL to the process, its group, and what hangs below it outside the group."""
    kill_all_by_order({child: order})


def kill_all_by_order(orders: Mapping[Child, Ordered]) -> None:
    """The same to many, with one look at the process table."""
    table = process_table() if orders else {}
    for child, order in orders.items():
        child.ordered, child.deadline = child.ordered or order, None  # the first reason is the reason
        if not child.is_succeeded:
            log.warning("killing child", slot=child.slot, pid=child.pid, order=order.name.lower())
        kin = below(child.pid, table)
        kill_group(child.pid)
        kill_kin(kin)


def _is_stack_written(execution: Execution, now: float) -> bool:
    """Whether faulthandler has finished: the last line is whole and the file has stopped growing."""
    size = stack_size(execution.child)
    if now >= execution.until:
        return True
    grew, execution.stack_bytes = size != execution.stack_bytes, size
    return not grew and size > 0 and read_stack(execution.child).endswith(b"\n")


def _is_stopped(pid: int) -> bool:
    try:
        return os.waitid(os.P_PID, pid, os.WSTOPPED | os.WNOHANG) is not None
    except ChildProcessError:
        return False
