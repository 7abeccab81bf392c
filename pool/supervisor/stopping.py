"""The end: workers finish what they hold or are killed at the deadline, the keeper stores what they left, all is told.

Deadlines are monotonic and set once; a repeated SIGTERM finds them set.
"""

from pool.board.record import Ordered, State
from pool.logs import log
from pool.supervisor.bequest import bequeath
from pool.supervisor.children import Child, Stage
from pool.supervisor.executions import kill_all_by_order, kill_by_order
from pool.supervisor.funerals import Funerals, Loss, is_settled
from pool.supervisor.house import House

# A child that is still importing holds no job: it need not be waited for.
BOOTING_GRACE_S = 1.0
# A call to a store that stands still lasts up to 5 s; then the keeper writes what it knows to disk, and must live to do so.
KEEPER_LEAST_S, KEEPER_MOST_S, KEEPER_HURRIED_S = 8.0, 10.0, 1.5
# SIGKILL works at once unless the kernel itself holds the process (a hung disk): then we leave without it.
UNKILLABLE_AFTER_S = 10.0


class Stopping:
    """One stop, from the first signal to the report. `code` is the supervisor's exit code."""

    def __init__(self, house: House, funerals: Funerals, now: float, *, code: int = 0, why: str = "") -> None:
        self._house, self._funerals = house, funerals
        self.began, self.code = now, code
        self.is_hurried = self.is_over = False
        self._keeper_until: float | None = None
        self._tried_new_keeper = self._was_all_told = False
        self._held = {job for child in house.others_first() for job in _held_by(child)}
        self._killed: list[int] = []
        self._lost: list[Loss] = []
        self._begin(now, why)

    def hurry(self, now: float) -> None:
        """Kill now; the keeper still has a moment to give the jobs back."""
        if self.is_hurried:
            return
        self.is_hurried = True
        log.warning("stopping at once")
        kill_all_by_order(dict.fromkeys(self._house.others_first(), Ordered.STOP))
        if self._keeper_until is not None:
            self._bound_the_last(now)

    def saw_ready(self, child: Child) -> None:
        """It had claimed already when we took it for booting: it gets the time of the others."""
        child.deadline, child.deadline_order = self.began + child.spec.stop_timeout, Ordered.STOP

    def saw(self, loss: Loss) -> None:
        """A child is gone."""
        if loss.child.spec.stop_last:
            self._was_all_told = loss.exit.planned and loss.child.ordered == Ordered.NONE
        else:
            self._lost.append(loss)
        if loss.child.ordered == Ordered.STOP:
            self._killed.append(loss.child.slot)

    def turn(self, now: float) -> None:
        """Once the others are gone the last ones are told; once they are gone too it is over."""
        if any(self._house.others_first()):
            self.is_over = now > self._latest_deadline() + UNKILLABLE_AFTER_S
        elif self._keeper_until is None:
            self._bound_the_last(now)
        if self._keeper_until is not None and not self.is_over:
            self._see_the_last_off(now)
        if self.is_over:
            self._bequeath()
            self._report()

    def next_deadline(self, now: float) -> float | None:
        """While the keeper is awaited, look often: it is the last thing between us and the end."""
        return now + 0.02 if self._keeper_until is not None else None

    def _begin(self, now: float, why: str) -> None:
        log.info("stopping", why=why)
        for child in list(self._house.others_first()):
            self._house.tell_to_leave(child, "stop", now)
            seconds = child.spec.stop_timeout
            if child.record.process.read().state == State.BOOTING:
                seconds = min(seconds, BOOTING_GRACE_S)
            child.deadline, child.deadline_order = now + seconds, Ordered.STOP

    def _latest_deadline(self) -> float:
        longest = max((child.spec.stop_timeout for child in self._house.others_first()), default=0.0)
        return self.began + max(longest, BOOTING_GRACE_S)

    def _bound_the_last(self, now: float) -> None:
        timeout = max((child.spec.stop_timeout for child in self._house.last_ones()), default=0.0)
        bounded = min(max(timeout, KEEPER_LEAST_S), KEEPER_MOST_S)
        self._keeper_until = now + (KEEPER_HURRIED_S if self.is_hurried else bounded)

    def _see_the_last_off(self, now: float) -> None:
        until = self._keeper_until or now
        if self._funerals.unsettled() and not self._tried_new_keeper:
            self._bring_back_the_keeper()
        for child in list(self._house.last_ones()):
            if now >= until:
                kill_by_order(child, Ordered.STOP)
            elif child.stage is not Stage.BORN or not self._funerals.unsettled():
                self._house.tell_to_leave(child, "stop", now)
                child.deadline, child.deadline_order = until, Ordered.STOP
        self.is_over = not any(self._house.last_ones()) or now > until + UNKILLABLE_AFTER_S

    def _bring_back_the_keeper(self) -> None:
        """It died, just before or just now, and there is something to tell the store. One that left in order has kept it on disk."""
        if any(self._house.last_ones()) or self.is_hurried:
            return
        self._tried_new_keeper = True
        for slot in self._house.children.slots.values():
            has_left_in_order = slot.last_exit is not None and slot.last_exit.planned
            if slot.spec.stop_last and slot.needs_birth and not has_left_in_order:
                self._house.births.bear(slot)

    def _bequeath(self) -> None:
        """A keeper that left in order has told the store of every death, or kept it on disk itself."""
        if not self._was_all_told:
            plan = self._house.plan
            bequeath(plan.departures_dir, plan.pool, self._funerals.unsettled())

    def _report(self) -> None:
        lost = {job for loss in self._lost for job in loss.held}
        not_returned = {job for loss in self._lost if not is_settled(loss.child) for job in loss.held}
        log.info(
            "stopped",
            finished=sorted(self._held - lost),
            returned=sorted(lost - not_returned),
            killed_slots=self._killed,
            not_returned=sorted(not_returned),
        )


def _held_by(child: Child) -> list[str]:
    return [lane.job_id for lane in child.record.held_lanes().values()]
