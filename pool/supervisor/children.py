"""The register of children: who was planned, born, ready, told to leave, gone. Pure bookkeeping; it never forks or kills."""

from collections.abc import Callable, Iterator

from pool.board.record import Ordered, Role
from pool.seat import ChildSpec
from pool.supervisor.places import Child, Group, GroupKey, LastExit, Slot, Stage

__all__ = ["Child", "Children", "Group", "GroupKey", "LastExit", "Slot", "Stage", "least_needed_first"]

# Workers count from 1 for people; the others start where no worker's number comes, so that a slot names one process.
_FIRST_SLOT = {Role.WORKER: 1, Role.KEEPER: 9001, Role.WEB: 9101, Role.WATCH: 9201}


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
