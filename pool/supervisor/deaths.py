"""How a child ends, read so that nothing is mistaken: look at the zombie, end its group, tell, then reap it.

While the zombie is not reaped its pid, and with it the number of its process group, cannot belong to anybody else.
"""

import contextlib
import os
import signal
from dataclasses import dataclass

from pool.board.record import Exit, Note, Ordered, State
from pool.clock import boottime_now, monotonic_now, wall_now
from pool.supervisor.children import Child, LastExit

STACK_BYTES = 4080
CORE_DUMPED = 0x80


@dataclass(frozen=True, slots=True)
class Ending:
    """A raw wait status in words; exactly one of `signal` and `code` is set."""

    status: int
    signal: int | None
    code: int | None


def ending_of(status: int) -> Ending:
    """From the status as waitpid gives it."""
    if os.WIFSIGNALED(status):
        return Ending(status, os.WTERMSIG(status), None)
    return Ending(status, None, os.waitstatus_to_exitcode(status))


def next_zombie() -> tuple[int, Ending] | None:
    """A child that has ended and is not yet reaped, and how it ended; None when there is none."""
    try:
        found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return None
    return None if found is None else (found.si_pid, ending_of(_raw_status(found)))


def _raw_status(zombie: os.waitid_result) -> int:
    """The status as waitpid gives it."""
    if zombie.si_code == os.CLD_EXITED:
        return zombie.si_status << 8
    return zombie.si_status | (CORE_DUMPED if zombie.si_code == os.CLD_DUMPED else 0)


def reap(pid: int) -> None:
    """Take the zombie away: its pid is free for others from here on."""
    os.waitpid(pid, 0)


def kill_group(pid: int) -> None:
    """SIGKILL to a child of ours that is not yet reaped, and to its whole process group."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)  # it may not have made its group yet


def send(child: Child, signum: int) -> None:
    """A signal to a child that is in the register, and so not reaped: the pid is its own."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(child.pid, signum)


def is_planned(child: Child, ending: Ending, announced: Exit) -> bool:
    """Whether it left because we told it to or because it had said so. Code 0 alone is not enough.

    A process that was told to leave and then crashed in its last job has crashed.
    """
    if child.ordered == Ordered.STOP:
        return True
    if announced != Exit.NONE:
        return ending.code == 0 or (child.was_told and ending.signal == signal.SIGTERM)
    return child.was_told and (ending.code == 0 or ending.signal == signal.SIGTERM)


def was_ready(child: Child) -> bool:
    """By its own account too: it may have become ready, and claimed, between our last look and its end."""
    return child.was_ready or child.record.process.read().state != State.BOOTING


def last_exit_of(child: Child, ending: Ending, *, oom: bool) -> LastExit:
    """What the register and /status keep of it."""
    announced = Exit(child.record.process.read().exit)
    return LastExit(
        pid=child.pid,
        signal=ending.signal,
        code=ending.code,
        at=wall_now(),
        lived_s=monotonic_now() - child.born_at,
        ordered=child.ordered,
        announced=announced,
        planned=is_planned(child, ending, announced),
        was_ready=was_ready(child),
        oom=oom,
        remark=child.record.remark.read().text,
    )


def note_of(child: Child, ending: Ending, exit: LastExit) -> Note:
    """The death note that the keeper tells the store from."""
    return Note(
        generation=child.generation,
        pid=child.pid,
        status=ending.status,
        ordered=child.ordered,
        planned=exit.planned,
        was_ready=exit.was_ready,
        oom=exit.oom,
        lived_s=exit.lived_s,
        at_boottime=boottime_now(),
    )


def ask_for_stack(child: Child) -> None:
    """Have its Python stacks written anew. The offset is shared with the child, so it starts at the beginning again."""
    os.ftruncate(child.stack_fd, 0)
    os.lseek(child.stack_fd, 0, os.SEEK_SET)
    send(child, signal.SIGUSR2)


def stack_size(child: Child) -> int:
    """Bytes written since the last request."""
    return os.fstat(child.stack_fd).st_size


def read_stack(child: Child, most: int = STACK_BYTES) -> bytes:
    """What was written since the last request; its end, if it is longer than `most` bytes."""
    return os.pread(child.stack_fd, most, max(0, stack_size(child) - most))
