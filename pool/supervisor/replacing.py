"""New before old: an heir is started beside a child that should go, and only when it is ready the child is told."""

from collections.abc import Iterable

from pool.board.record import Exit, Ordered, Role
from pool.supervisor.children import Child, Slot, Stage
from pool.supervisor.executions import kill_by_order
from pool.supervisor.house import House

# These announce their end and then wait for their heir; the others leave at once.
_WAITING_EXITS = frozenset({Exit.MEMORY, Exit.MAX_JOBS, Exit.MAX_AGE})


class Replacing:
    """Recycling: heirs for the children that want one (`replace_why`), staggered."""

    def __init__(self, house: House) -> None:
        self._house = house

    def heed_exit(self, child: Child, announced: Exit, now: float) -> None:
        """It says that it will leave: it claims nothing more from here on."""
        self._house.children.retiring(child, announced.name.lower(), now)
        if announced in _WAITING_EXITS:
            child.replace_why = announced.name.lower()

    def heed_ready(self, child: Child, now: float) -> None:
        """It is ready; whom it replaces may go."""
        predecessor = self._house.children.ready(child, now)
        if predecessor is not None:
            self._dismiss(predecessor, now)

    def turn(self, now: float) -> None:
        """Start the heirs that may be started now."""
        for slot in self._wanting():
            if self.may_start_heir(slot, now):
                self._house.births.bear(slot, as_heir=True)

    def may_start_heir(self, slot: Slot, now: float) -> bool:
        """At most one at a time for memory, else a quarter of the group; leavers are capped at twice the count.

        One that has announced its end for its jobs or its age works no more: its heir takes nothing from anybody.
        """
        if slot.child is None or slot.heir is not None or slot.next_start > now:
            return False
        group = self._house.children.of_group((slot.role, slot.group))
        most_heirs = _most_heirs(slot.child, len(group))
        leavers = sum(len(other.leavers) for other in group)
        return self._house.heirs_in(slot) < most_heirs and leavers < 2 * len(group)

    def _wanting(self) -> Iterable[Slot]:
        slots = self._house.children.slots.values()
        return [slot for slot in slots if slot.wanted and slot.child is not None and slot.child.replace_why]

    def _dismiss(self, child: Child, now: float) -> None:
        if child.spec.stop_last:
            # SIGTERM means "leave when all others have left" to it; it is made to be killed at any moment.
            kill_by_order(child, Ordered.STOP)
        else:
            self._house.tell_to_leave(child, child.replace_why or "replaced", now)


def _most_heirs(child: Child, group_size: int) -> int:
    if child.replace_why == "memory":
        return 1
    has_stopped_working = child.stage is Stage.RETIRING
    return group_size if has_stopped_working else max(1, group_size // 4)


def replace_in_place(house: House, slot: Slot, why: str, now: float) -> None:
    """Old before new, for what cannot be there twice: a web child holds its port. The slot is filled when it has left."""
    if slot.child is not None and slot.child.stage is not Stage.GONE:
        house.tell_to_leave(slot.child, why, now)
    slot.next_start = now


def can_be_there_twice(role: Role) -> bool:
    """Whether the heir may start while the old one still works."""
    return role in (Role.WORKER, Role.KEEPER)
