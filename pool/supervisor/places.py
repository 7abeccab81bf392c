"""What the register of children is made of: a `Group` says how many are wanted, a `Slot` is a place that is kept filled,
a `Child` is one process in it. While a child is replaced its slot holds two: the one at work and its `heir`.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from pool.board.record import Exit, Ordered, Record, Role, State
from pool.seat import ChildSpec

GroupKey = tuple[Role, str]


class Stage(StrEnum):
    """How far a process is in its life, in the parent's eyes."""

    PLANNED = "planned"
    BORN = "born"
    READY = "ready"
    RETIRING = "retiring"
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class LastExit:
    """How the last process of a slot ended. Exactly one of `signal` and `code` is set; `at` is a wall time."""

    pid: int
    signal: int | None
    code: int | None
    at: float
    lived_s: float
    ordered: Ordered = Ordered.NONE
    announced: Exit = Exit.NONE
    planned: bool = False
    was_ready: bool = False
    oom: bool = False
    remark: str = ""

    @property
    def last_line(self) -> str:
        """Of its remark: the exception, where that is a traceback."""
        return self.remark.strip().rpartition("\n")[2]

    @property
    def sentence(self) -> str:
        """In words, and no more than is known: `signal 9, not sent by jobpool`."""
        if self.signal is None:
            return f"exit code {self.code}"
        if self.ordered != Ordered.NONE:
            return f"signal {self.signal}, sent by jobpool ({self.ordered.name.lower()})"
        if self.planned:
            return f"signal {self.signal}"
        return f"signal {self.signal}, not sent by jobpool" + (" (the kernel ran out of memory)" if self.oom else "")


@dataclass(slots=True, eq=False)
class Child:
    """One process. Times without `wall` are monotonic seconds; `deadline` is when it is killed for `deadline_order`."""

    slot: int
    generation: int
    spec: ChildSpec
    record: Record
    stack_fd: int = -1
    pid: int = 0
    stage: Stage = Stage.PLANNED
    born_at: float = 0.0
    started_wall: float = 0.0
    ready_at: float | None = None
    leaving_since: float | None = None
    leaving_why: str = ""
    was_told: bool = False
    is_succeeded: bool = False  # another has taken over from a child that is made to be killed at any moment
    replace_why: str = ""  # it wants a successor before it leaves
    deadline: float | None = None
    deadline_order: Ordered = Ordered.BOOT
    ordered: Ordered = Ordered.NONE
    fresh_bytes: int = 0
    memory_bytes: int = 0
    shared_bytes: int = -1  # of its rss, not counted by the group's metric; -1 = unknown
    is_settled: bool = False  # dead, and the keeper has told the store

    @property
    def role(self) -> Role:
        return self.spec.role

    @property
    def group(self) -> str:
        return self.spec.group

    @property
    def was_ready(self) -> bool:
        return self.ready_at is not None

    def is_idle(self) -> bool:
        """Whether it holds no job at this moment, by its own account on the board."""
        return self.record.process.read().state != State.BUSY and not self.record.held_lanes()


@dataclass(slots=True, eq=False)
class Slot:
    """A place that is kept filled while `wanted`. `next_start`: not before this monotonic time."""

    number: int
    spec: ChildSpec
    wanted: bool = True
    child: Child | None = None
    heir: Child | None = None
    leavers: list[Child] = field(default_factory=list)
    restarts: int = 0
    failures: int = 0
    boot_failures: int = 0
    was_ever_ready: bool = False
    is_done: bool = False  # a burst child has finished its work: leave the place empty
    last_exit: LastExit | None = None
    next_start: float = 0.0
    parked_until: float | None = None
    parked_why: str = ""

    @property
    def role(self) -> Role:
        return self.spec.role

    @property
    def group(self) -> str:
        return self.spec.group

    @property
    def is_parked(self) -> bool:
        return self.parked_until is not None and self.child is None

    @property
    def is_ready(self) -> bool:
        return self.child is not None and self.child.stage is Stage.READY

    @property
    def needs_birth(self) -> bool:
        """Wanted and empty: the gap that the loop closes when `next_start` has come."""
        return self.wanted and not self.is_done and self.child is None and self.heir is None

    def living(self) -> Iterator[Child]:
        """Every process of this place: the one at work, its heir, those that leave."""
        if self.child is not None:
            yield self.child
        if self.heir is not None:
            yield self.heir
        yield from self.leavers


@dataclass(slots=True, eq=False)
class Group:
    """How many are wanted. `source`: file, flag, environment, default, scale or autoscale. `reason` is for people."""

    spec: ChildSpec
    wanted: int
    source: str = "file"
    draining: bool = False
    reason: str = ""

    @property
    def key(self) -> GroupKey:
        return (self.spec.role, self.spec.group)
