"""The register of children: who was planned, born, ready, told to leave, gone. Pure bookkeeping; it never forks or kills.

A `Group` says how many are wanted, a `Slot` is a place that is kept filled, a `Child` is one process in it. While a child
is replaced its slot holds two: the one at work (`child`) and its `heir`, which takes over when it is ready.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from pool.board.record import Exit, Ordered, Record, Role, State
from pool.seat import ChildSpec

GroupKey = tuple[Role, str]

# Workers count from 1 for people; the others start where no worker's number comes, so that a slot names one process.
_FIRST_SLOT = {Role.WORKER: 1, Role.KEEPER: 9001, Role.WEB: 9101, Role.WATCH: 9201}


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
    replace_why: str = ""  # it wants a successor before it leaves
    deadline: float | None = None
    deadline_order: Ordered = Ordered.BOOT
    ordered: Ordered = Ordered.NONE
    fresh_bytes: int = 0
    memory_bytes: int = 0
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


class Children:
    """All groups, slots and processes of a pool."""

    def __init__(self) -> None:
        self.groups: dict[GroupKey, Group] = {}
        self.slots: dict[int, Slot] = {}
        self._by_pid: dict[int, Child] = {}
        self._generations: dict[int, int] = {}

    # ------------------------------------------------------------------ questions

    def by_pid(self, pid: int) -> Child | None:
        """The living child with this pid; None for a stranger."""
        return self._by_pid.get(pid)

    def living(self) -> Iterator[Child]:
        """Every process that was born and not yet reaped."""
        return iter(list(self._by_pid.values()))

    def of_group(self, key: GroupKey) -> list[Slot]:
        """The group's wanted slots, by number."""
        mine = (slot for slot in self.slots.values() if (slot.role, slot.group) == key and slot.wanted)
        return sorted(mine, key=lambda slot: slot.number)

    def workers(self) -> list[Slot]:
        """Every wanted slot of a worker, by number."""
        return [slot for slot in self._in_order() if slot.role == Role.WORKER and slot.wanted]

    def slot_of(self, child: Child) -> Slot:
        """The place this process has or had."""
        return self.slots[child.slot]

    def _in_order(self) -> list[Slot]:
        return [self.slots[number] for number in sorted(self.slots)]

    # ------------------------------------------------------------------ wanted

    def want(self, spec: ChildSpec, count: int, source: str = "file") -> list[Slot]:
        """Set a group's spec and wanted number; missing slots are made. Returns the surplus slots, to be let go."""
        group = self.groups.setdefault((spec.role, spec.group), Group(spec, count, source))
        group.spec, group.wanted, group.source = spec, count, source
        slots = self.of_group(group.key)
        for slot in slots:
            slot.spec = spec
        for _ in range(count - len(slots)):
            number = self._free_number(spec.role)
            self.slots[number] = Slot(number, spec)
        return least_needed_first(slots)[: max(0, len(slots) - count)]

    def forget_group(self, key: GroupKey) -> list[Slot]:
        """The group is planned no more. Returns its slots, to be let go."""
        self.groups.pop(key, None)
        return self.of_group(key)

    def let_go(self, slot: Slot) -> list[Child]:
        """The place is wanted no more. Returns its processes that still have to be told to leave."""
        slot.wanted = False
        leaving = [child for child in (slot.child, slot.heir) if child is not None]
        slot.child = slot.heir = None
        slot.leavers += leaving
        self._drop_if_empty(slot)
        return leaving

    # ------------------------------------------------------------------ the life of a process

    def next_generation(self, slot: Slot) -> int:
        """A generation that no process of this slot number ever had."""
        self._generations[slot.number] = self._generations.get(slot.number, 0) + 1
        return self._generations[slot.number]

    def born(self, slot: Slot, child: Child, *, as_heir: bool = False) -> None:
        """A process was forked into the slot."""
        child.stage = Stage.BORN
        self._by_pid[child.pid] = child
        if as_heir:
            slot.heir = child
        else:
            slot.child, slot.parked_until, slot.parked_why = child, None, ""

    def ready(self, child: Child, now: float) -> Child | None:
        """It announced itself. Returns the predecessor whose place it takes, to be told to leave."""
        if child.stage is Stage.BORN:
            child.stage = Stage.READY
        child.ready_at = now
        if child.deadline_order == Ordered.BOOT:
            child.deadline = None
        slot = self.slots[child.slot]
        slot.was_ever_ready, slot.boot_failures = True, 0
        if slot.heir is not child:
            return None
        predecessor, slot.child, slot.heir = slot.child, child, None
        if predecessor is not None:
            slot.leavers.append(predecessor)
        return predecessor

    def retiring(self, child: Child, why: str, now: float) -> None:
        """It will leave: it said so, or is about to be told."""
        child.stage = Stage.RETIRING
        if child.leaving_since is None:
            child.leaving_since, child.leaving_why = now, why

    def gone(self, child: Child) -> Slot:
        """It was reaped: its pid means nothing any more."""
        slot = self.slots[child.slot]
        self._by_pid.pop(child.pid, None)
        child.stage = Stage.GONE
        if slot.child is child:
            slot.child, slot.heir = slot.heir, None
        elif slot.heir is child:
            slot.heir = None
        else:
            slot.leavers.remove(child)
        self._drop_if_empty(slot)
        return slot

    def _drop_if_empty(self, slot: Slot) -> None:
        if not slot.wanted and not any(slot.living()):
            self.slots.pop(slot.number, None)

    def _free_number(self, role: Role) -> int:
        number = _FIRST_SLOT[role]
        while number in self.slots:
            number += 1
        return number


def least_needed_first(
    slots: list[Slot], is_idle: Callable[[Child], bool] = lambda child: child.is_idle()
) -> list[Slot]:
    """In the order in which to let go: empty places, then those not ready, idle ones, busy ones; high numbers first."""

    def rank(slot: Slot) -> tuple[int, int]:
        if slot.child is None:
            return (0, -slot.number)
        if slot.child.stage is not Stage.READY:
            return (1, -slot.number)
        return (2 if is_idle(slot.child) else 3, -slot.number)

    return sorted(slots, key=rank)
