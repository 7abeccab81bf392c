"""The daily round of the loop: fill empty places, bury the dead and learn from them, heed what children announce."""

from pool.board.record import Exit, Ordered, State
from pool.clock import monotonic_now
from pool.logs import log
from pool.supervisor import restarts
from pool.supervisor.children import Child, Stage
from pool.supervisor.executions import kill_all_by_order
from pool.supervisor.funerals import Funerals, Loss, Place
from pool.supervisor.house import House
from pool.supervisor.inspection import Inspection
from pool.supervisor.replacing import Replacing

LOOK_EVERY_S = 1.0
# While nothing is under way: below the 3 s that a job with a timeout has at least, once it has started, until it is killed.
LOOK_CALMLY_EVERY_S = 2.9
# Between two births the loop turns, so that a stop is never kept waiting by a big pool that is starting.
BIRTHS_PER_TURN = 8


class Upkeep:
    """Each method is one verb of a turn. `look_at` is when the board is looked at next."""

    def __init__(self, house: House) -> None:
        self._house, self._children = house, house.children
        self.funerals = Funerals(house)
        self.replacing = Replacing(house)
        self.inspection = Inspection(house, monotonic_now())
        self.look_at = 0.0

    def fill_gaps(self, now: float) -> None:
        """Births in places that are wanted and empty, once their time has come."""
        waiting = [slot for slot in self._children.slots.values() if slot.needs_birth and slot.next_start <= now]
        if waiting:
            self._house.births.bear_all(waiting[:BIRTHS_PER_TURN])

    def bury_the_dead(self, now: float) -> list[Loss]:
        """Those that are gone; what follows for their places is decided here."""
        losses, may_be_more = self.funerals.bury_the_dead()
        for loss in losses:
            self._learn_from(loss, now)
        if may_be_more:
            self.look_at = 0.0
        return losses

    def look(self, now: float) -> list[Child]:
        """At the board, if it is time; those that became ready."""
        if now < self.look_at:
            return []
        self.look_at = now + LOOK_EVERY_S
        self.funerals.free_settled_records()
        newly_ready = [child for child in self._children.living() if self._heed(child, now)]
        self.inspection.look(now)
        if self._is_calm():
            self.look_at = now + LOOK_CALMLY_EVERY_S
        self.look_at = min(self.look_at, self.inspection.next_hard_deadline or self.look_at)
        return newly_ready

    def _is_calm(self) -> bool:
        """Whether everybody is at its place and nobody has to be watched closely."""
        return self.funerals.all_are_settled and not any(map(self._needs_close_look, self._children.living()))

    def _needs_close_look(self, child: Child) -> bool:
        group = self._children.groups.get((child.role, child.group))
        spec = child.spec if group is None else group.spec
        is_moving = child.stage is not Stage.READY or bool(child.replace_why) or child.deadline is not None
        is_capped = bool(spec.memory.limit or spec.memory.kill)
        is_measured_often = is_capped and spec.memory.check_seconds < LOOK_CALMLY_EVERY_S
        must_be_quick = spec.target_wait is not None or spec.silence_timeout < 4 * LOOK_CALMLY_EVERY_S
        return is_moving or is_measured_often or must_be_quick

    def kill_overdue(self, now: float) -> None:
        """Not ready in time, or the time to leave is over."""
        overdue = [child for child in self._children.living() if child.deadline is not None and child.deadline <= now]
        late = [child for child in overdue if child.deadline_order == Ordered.BOOT]
        for child in late:
            if child.record.process.read().state != State.BOOTING:
                child.deadline, self.look_at = None, 0.0  # it has just become ready and may have claimed
                overdue.remove(child)
            else:
                log.error("child did not become ready in time", slot=child.slot, within_s=child.spec.boot_timeout)
        kill_all_by_order({child: child.deadline_order for child in overdue})

    def start_clocks_anew(self, now: float) -> None:
        """We were away, and the children may have been: nothing that ran out meanwhile proves anything."""
        self.inspection.start_anew(now)
        for child in self._children.living():
            if child.deadline is not None and child.deadline_order == Ordered.BOOT:
                child.deadline = max(child.deadline, now + child.spec.boot_timeout)

    def deadlines(self) -> list[float | None]:
        """When the board is to be looked at and children are to be killed."""
        return [self.look_at, *(child.deadline for child in self._children.living())]

    def birth_times(self) -> list[float]:
        """When empty places may be filled."""
        return [slot.next_start for slot in self._children.slots.values() if slot.needs_birth]

    def _learn_from(self, loss: Loss, now: float) -> None:
        slot, exit = loss.slot, loss.exit
        slot.last_exit = exit
        slot.restarts += not exit.planned
        slot.was_ever_ready = slot.was_ever_ready or exit.was_ready
        slot.is_done = slot.is_done or (exit.planned and exit.announced == Exit.BURST_DONE)
        if loss.place is Place.LEAVER:
            return
        verdict = restarts.judge(slot.spec, slot.failures, slot.boot_failures, exit)
        restarts.apply(verdict, slot, now)
        if verdict.parked_why:
            log.error("slot is parked", slot=slot.number, for_s=round(verdict.delay_s, 1), why=verdict.parked_why)

    def _heed(self, child: Child, now: float) -> bool:
        """Whether it is ready now and was not before."""
        process = child.record.process.read()
        announced = Exit(process.exit)
        is_newly_ready = not child.was_ready and process.state != State.BOOTING
        if is_newly_ready:
            log.info("child ready", slot=child.slot, pid=child.pid, after_s=round(now - child.born_at, 3))
            self.replacing.heed_ready(child, now)
        if announced != Exit.NONE and child.stage is not Stage.RETIRING:
            self.replacing.heed_exit(child, announced, now)
        return is_newly_ready
