"""What passes between plan, supervisor and a child: the order for children (`ChildSpec`) and a child's place (`Seat`).

The supervisor forks, then calls `spec.run(seat)` in the child and leaves with the number it returns.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from pool.board.board import Board
from pool.board.record import Record, Role
from pool.identity import ProcessMark, WorkerId

MemoryMetric = Literal["rss", "pss", "uss"]


@dataclass(frozen=True, slots=True)
class Seat:
    """A child's place in the house, made by the parent before the fork.

    announce_fd   write one byte (non-blocking) when the process became ready or announced its exit: the parent looks
    note_fd       readable when a death note stands on the board (keeper only; drain it, then look)
    stack_fd      where faulthandler writes this process's stacks on SIGUSR2; the parent has it too
    lock_fd       the file of the start locks (worker and keeper); -1: there is none, and nothing is claimed ahead
    keeper_fd     write a byte (non-blocking) to wake the keeper (worker only; -1: nobody to wake)
    parent        the mark of the supervisor: when it is no longer our parent, finish the job and leave
    """

    worker: WorkerId
    role: Role
    group: str
    board: Board
    record: Record
    parent: ProcessMark
    announce_fd: int
    note_fd: int
    stack_fd: int
    lock_fd: int = -1
    keeper_fd: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryRule:
    """Ceilings in bytes, 0 = off. `limit` is soft (leave after the job), `kill` is hard (SIGKILL in mid-job)."""

    limit: int = 0
    kill: int = 0
    metric: MemoryMetric = "rss"
    check_seconds: float = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildSpec:
    """Children of one kind. Two specs with equal `fingerprint` need no replacement on reload, only a change of count.

    `critical`: the keeper, whose backoff is capped at `max_delay` and which is never parked.
    `stop_last`: leaves only after every other child has left. `burst`: a child that leaves with BURST_DONE is not
    replaced, and when the last of them has left the whole pool stops.
    """

    role: Role
    group: str
    count: int
    run: Callable[[Seat], int]
    fingerprint: str
    lanes: int = 1
    stop_timeout: float = 30.0
    boot_timeout: float = 30.0
    retire_timeout: float = 0.0  # 0 = a retired worker may finish its job however long it takes
    silence_timeout: float = 30.0
    first_delay: float = 1.0
    max_delay: float = 60.0
    healthy_after: float = 10.0
    critical: bool = False
    stop_last: bool = False
    burst: bool = False
    memory: MemoryRule = field(default_factory=MemoryRule)
    max_jobs: int = 0
    max_age: float = 0.0
    count_min: int | None = None
    count_max: int | None = None
    target_wait: float | None = None
    queues: tuple[str, ...] = ("*",)
    min_priority: int = 0
    max_priority: int = 100
