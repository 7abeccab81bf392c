"""New before old: an heir is started beside a child that should go, and only when it is ready the child is told."""

from collections.abc import Iterable

from pool.board.record import Exit, Ordered, Role
from pool.logs import log
from pool.supervisor import budget
from pool.supervisor.children import Child, Slot, Stage
from pool.supervisor.executions import kill_by_order
from pool.supervisor.house import House

LOOK_AT_MEMORY_EVERY_S = 0.5
NO_ROOM = "room"
# These announce their end and then wait for their heir; the others leave at once.
_WAITING_EXITS = frozenset({Exit.MEMORY, Exit.MAX_JOBS, Exit.MAX_AGE})


class Replacing:
    """Recycling: heirs for the children that want one (`replace_why`), staggered."""

    def __init__(self, house: House) -> None:
        self._house = house
        self._look_at_memory_at = 0.0
        self._left_bytes: int | None = None

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
        if NO_ROOM in self._house.complaints and not any(self._house.surplus_workers()):
            self._note_room(True)
        for slot in self._wanting():
            if self.may_start_heir(slot, now):
                self._house.births.bear(slot, as_heir=True)

    def may_start_heir(self, slot: Slot, now: float) -> bool:
        """At most one at a time for memory, else a quarter of the group; leavers are capped at twice the count and by memory.

        One that has announced its end for its jobs or its age works no more: its heir takes nothing from anybody.
        """
        if slot.child is None or slot.heir is not None or slot.next_start > now:
            return False
        group = self._house.children.of_group((slot.role, slot.group))
        most_heirs = _most_heirs(slot.child, len(group))
        leavers = sum(len(other.leavers) for other in group)
        if self._house.heirs_in(slot) >= most_heirs or leavers >= 2 * len(group):
            return False
        return self._has_room_for_heir_of(slot.child, now)

    def _has_room_for_heir_of(self, child: Child, now: float) -> bool:
        """Memory for one as big, beside those that leave and heirs still growing. One too many is always allowed, or a
        pool that fills its memory could never be renewed.
        """
        heirs, leavers = self._house.surplus_workers()
        if child.role != Role.WORKER or not (heirs or leavers):
            return self._note_room(True)
        allowed = budget.allowance() if now >= self._look_at_memory_at else None
        if allowed is not None:
            self._look_at_memory_at = now + LOOK_AT_MEMORY_EVERY_S
            self._left_bytes = allowed.left_bytes
        needed = expected_bytes(child) * (1 + heirs)
        return self._note_room(self._left_bytes is None or needed <= self._left_bytes)

    def _note_room(self, has_room: bool) -> bool:
        if has_room:
            self._house.complaints.pop(NO_ROOM, None)
        elif NO_ROOM not in self._house.complaints:
            self._house.complaints[NO_ROOM] = "replacements wait for memory: workers that leave still use it"
            log.warning("replacements wait for memory", left_bytes=self._left_bytes)
        return has_room

    def _wanting(self) -> Iterable[Slot]:
        slots = self._house.children.slots.values()
        return [slot for slot in slots if slot.wanted and slot.child is not None and slot.child.replace_why]

    def _dismiss(self, child: Child, now: float) -> None:
        if child.spec.stop_last:
            # SIGTERM means "leave when all others have left" to it; it is made to be killed at any moment.
            child.is_succeeded, child.leaving_why = True, child.replace_why or "replaced"
            kill_by_order(child, Ordered.STOP)
        else:
            self._house.tell_to_leave(child, child.replace_why or "replaced", now)


def expected_bytes(child: Child) -> int:
    """What its heir will come to: it does the same work, and is replaced or killed at its ceiling."""
    ceiling = child.spec.memory.limit or child.spec.memory.kill
    return min(child.memory_bytes, ceiling) if ceiling else child.memory_bytes


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
