"""A roll: slots replaced a few at a time, new before old. If the first new one does not become ready, all old ones stay."""

from collections import Counter
from collections.abc import Iterable

from pool.board.record import Ordered, Role
from pool.logs import log
from pool.supervisor.children import Child, GroupKey, Slot
from pool.supervisor.executions import kill_by_order
from pool.supervisor.funerals import Loss, Place
from pool.supervisor.house import House
from pool.supervisor.replacing import Replacing, can_be_there_twice, replace_in_place

# After the first new one has proved the code, another's failure may be an accident; three of one slot are not.
TRIES_PER_SLOT = 3
# So long nothing may move before a roll counts as stuck, and those who asked for it are told that it waits.
PATIENCE_S = 5.0


class Roll:
    """One roll over some slots. `is_decided` once the first new child is ready or has failed; `error` empty = well.

    `is_proven`: the code has been tried already, by the roll that this one goes on with.
    """

    def __init__(
        self,
        house: House,
        replacing: Replacing,
        slots: Iterable[Slot],
        why: str,
        now: float,
        *,
        is_proven: bool = False,
    ) -> None:
        self._is_proven, self._moved_at = is_proven, now
        self._house, self._replacing, self._why, self._began = house, replacing, why, now
        self._pending = list(slots)
        self._total = len(self._pending)
        self._under_way: dict[int, Slot] = {}
        self._tries: Counter[int] = Counter()
        self.replaced = 0
        self.error = ""

    @property
    def is_decided(self) -> bool:
        return self._is_proven or self.replaced > 0 or bool(self.error) or self.is_over

    @property
    def is_over(self) -> bool:
        return not self._pending and not self._under_way

    def is_stuck(self, now: float) -> bool:
        """Whether nothing is on its way and nothing could be begun for a while, for want of memory or of room for leavers."""
        return not self.error and not self._under_way and now - self._moved_at > PATIENCE_S

    @property
    def left(self) -> list[Slot]:
        """What was not begun yet and is still out of date."""
        return [slot for slot in self._pending if slot.wanted and not self._is_new(slot)]

    def turn(self, now: float) -> None:
        """Begin with the slots that may be begun."""
        self._moved_at = now if self._under_way else self._moved_at
        for slot in [slot for slot in self._under_way.values() if not slot.wanted]:
            del self._under_way[slot.number]  # a smaller count took the place away meanwhile
        room = self._room()
        waiting: list[Slot] = []
        workers_come_first = self._has_workers_left()
        for slot in filter(lambda slot: slot.wanted, self._pending):
            key = (slot.role, slot.group)
            may_begin = room[key] > 0 and (slot.role == Role.WORKER or not workers_come_first)
            if self._is_new(slot):
                self.replaced += 1
            elif may_begin and self._begin(slot, now):
                room[key] -= 1
                self._moved_at = now
            else:
                waiting.append(slot)
        self._pending = waiting

    def saw_ready(self, child: Child) -> None:
        """A child is ready: perhaps one of ours."""
        if child.slot in self._under_way and child.born_at >= self._began:
            del self._under_way[child.slot]
            self.replaced += 1

    def saw(self, loss: Loss) -> None:
        """A child is gone: perhaps one of ours that never became ready."""
        slot = self._under_way.get(loss.child.slot)
        if slot is None or loss.child.born_at < self._began or loss.place is Place.LEAVER:
            return
        if loss.exit.was_ready:  # and has left again before we looked
            self.saw_ready(loss.child)
            return
        reason = loss.exit.remark.strip() or loss.exit.sentence
        self._tries[slot.number] += 1
        del self._under_way[slot.number]
        if self.replaced == 0 and not self._is_proven:
            self._cancel(f"the first new child (slot {slot.number}) did not become ready: {reason}")
        elif self._tries[slot.number] < TRIES_PER_SLOT:
            self._pending.append(slot)
        else:
            self._cancel(f"{self.replaced} of {self._total} replaced, then slot {slot.number} failed: {reason}")

    def _room(self) -> dict[GroupKey, int]:
        """How many more heirs each group may have now: of thousands of places only these few are looked at in a turn."""
        groups = {key: self._house.children.of_group(key) for key in {(s.role, s.group) for s in self._pending}}
        return {key: max(1, len(group) // 4) - sum(s.heir is not None for s in group) for key, group in groups.items()}

    def _has_workers_left(self) -> bool:
        """Workers prove the code; a keeper, which imports none of it, must not decide a roll by being ready first."""
        return any(slot.role == Role.WORKER for slot in [*self._pending, *self._under_way.values()])

    def _is_new(self, slot: Slot) -> bool:
        """It died and came back since we began: nothing is left to replace."""
        return slot.is_ready and slot.child is not None and slot.child.born_at >= self._began

    def _begin(self, slot: Slot, now: float) -> bool:
        if slot.child is None and slot.heir is None:
            self._start_at_once(slot, now)
        elif not can_be_there_twice(slot.role):
            replace_in_place(self._house, slot, self._why, now)
        elif not self._start_heir(slot, now):
            return False
        self._under_way[slot.number] = slot
        return True

    def _start_at_once(self, slot: Slot, now: float) -> None:
        """Nobody is there: the place waited out a backoff or was parked, for reasons that may be gone."""
        slot.next_start, slot.failures, slot.boot_failures = now, 0, 0
        slot.parked_until, slot.parked_why = None, ""

    def _start_heir(self, slot: Slot, now: float) -> bool:
        if slot.heir is not None or not self._replacing.may_start_heir(slot, now):
            return False
        if slot.child is not None:
            slot.child.replace_why = slot.child.replace_why or self._why
        return self._house.births.bear(slot, as_heir=True) is not None

    def _cancel(self, error: str) -> None:
        self.error = error
        log.error("the roll is cancelled, the other old children stay", why=error)
        for slot in [*self._under_way.values(), *self._pending]:
            if slot.child is not None and slot.child.replace_why == self._why:
                slot.child.replace_why = ""
            if slot.heir is not None:
                kill_by_order(slot.heir, Ordered.STOP)
        self._pending.clear()
        self._under_way.clear()
