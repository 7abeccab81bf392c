"""Reloads and rolls under way: one at a time; requests that come meanwhile become one more.

That one need not wait for the end of a roll that is stuck, for want of memory or of room for those who leave: that may take
hours. The file is read anew, and what is left of the roll goes on under the new plan.
"""

import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from pool.board.record import Role
from pool.clock import wall_now
from pool.errors import JobpoolError
from pool.logs import log
from pool.supervisor.children import Child, GroupKey, Slot
from pool.supervisor.control import LastReload, Reply
from pool.supervisor.funerals import Loss
from pool.supervisor.house import House
from pool.supervisor.planned import Plan, Reread
from pool.supervisor.reload import adopt, count_in, difference, key_of, source_in, spec_in, what_forbids
from pool.supervisor.replacing import NO_ROOM, Replacing
from pool.supervisor.roll import PATIENCE_S, Roll


@dataclass(frozen=True, slots=True)
class Asker:
    """Who wants to know: at the first new child, or (`wait`) at the end."""

    reply: Reply
    wait: bool = False


class Reloading:
    """What SIGHUP, SIGUSR2, `reload` and `restart` ask for. `on_plan` is called when a new plan is in force."""

    def __init__(
        self, house: House, replacing: Replacing, reread: Reread | None, on_plan: Callable[[Plan], None]
    ) -> None:
        self._house, self._replacing, self._reread, self._on_plan = house, replacing, reread, on_plan
        self.last: LastReload | None = None
        self._roll: Roll | None = None
        self._undo: Callable[[], None] | None = None
        self._is_reload = False
        self._words: tuple[str, ...] = ()
        self._counts: dict[GroupKey, tuple[int, str]] = {}
        self._askers: list[Asker] = []
        self._is_wanted = self._is_rolling_wanted = False
        self._next_askers: list[Asker] = []
        self._began = self._began_wall = 0.0
        self._left_over: list[Slot] = []  # of a roll that the one under way has followed

    @property
    def is_busy(self) -> bool:
        return self._roll is not None or self._is_wanted

    def ask(self, *, rolling: bool, asker: Asker | None = None) -> None:
        """A reload is wanted, now or after the one under way."""
        self._is_wanted, self._is_rolling_wanted = True, self._is_rolling_wanted or rolling
        if asker is not None:
            self._next_askers.append(asker)

    def restart(self, slots: Iterable[Slot], now: float, asker: Asker) -> None:
        """Replace these slots' children with new ones of the same plan."""
        if self.is_busy:
            asker.reply(409, {"error": "a reload or restart is under way; wait for its end"})
            return
        self._is_reload, self._words, self._askers, self._undo, self._counts = False, (), [asker], None, {}
        self._began, self._began_wall, self._left_over = now, wall_now(), []
        self._roll = Roll(self._house, self._replacing, slots, "restart", now)

    def turn(self, now: float) -> None:
        """Take the roll under way further, or begin what is wanted."""
        if self._is_wanted and (self._roll is None or self._roll.is_stuck(now)):
            self._begin(now)
        if self._roll is not None:
            self._roll.turn(now)
            if self._roll.is_decided and not self._roll.error:
                self._set_counts(now)
            self._tell_those_who_do_not_wait(self._roll, now)
            if self._roll.is_over:
                self._finish(self._roll.error, now)

    def saw_ready(self, child: Child) -> None:
        if self._roll is not None:
            self._roll.saw_ready(child)

    def saw(self, loss: Loss) -> None:
        if self._roll is not None:
            self._roll.saw(loss)

    def abandon(self) -> None:
        """The pool stops: nobody is kept waiting."""
        for asker in [*self._askers, *self._next_askers]:
            asker.reply(409, {"ok": False, "error": "the pool is stopping"})
        self._askers, self._next_askers, self._roll, self._is_wanted = [], [], None, False

    # ------------------------------------------------------------------ a reload

    def _begin(self, now: float) -> None:
        rolling, askers = self._is_rolling_wanted, self._next_askers
        self._is_wanted, self._is_rolling_wanted, self._next_askers = False, False, []
        plan, error = self._read()
        if plan is None:
            self._refuse(error, askers)
            return
        self._askers = [*self._askers, *askers]
        if self._roll is None:
            self._start_anew(plan, rolling, now)
        else:
            self._follow(self._roll, plan, rolling, now)

    def _start_anew(self, plan: Plan, rolling: bool, now: float) -> None:
        self._is_reload, self._words, self._undo, self._counts, self._left_over = True, (), None, {}, []
        self._began, self._began_wall = now, wall_now()
        slots = self._apply(plan, rolling, now)
        self._roll = Roll(self._house, self._replacing, slots, "reload", now)

    def _follow(self, roll: Roll, plan: Plan, rolling: bool, now: float) -> None:
        """Go on with what is left of a roll that is stuck. If its code is not proved yet, both plans stand or fall together."""
        words, counts, undo, left = self._words, self._counts, self._undo, roll.left
        self._start_anew(plan, rolling, now)
        new = self._roll.left if self._roll is not None else []
        self._words = tuple(dict.fromkeys([*words, *self._words]))
        self._counts = {
            key: count for key, count in counts.items() if key in self._house.children.groups
        } | self._counts
        if roll.is_decided:
            self._left_over = left
        else:
            self._undo = _both(self._undo, undo)
        slots = [*new, *(slot for slot in left if slot not in new)]
        is_proven = roll.is_decided and not new
        self._undo = None if is_proven else self._undo
        self._roll = Roll(self._house, self._replacing, slots, "reload", now, is_proven=is_proven)

    def _refuse(self, error: str, askers: list[Asker]) -> None:
        """A bad file changes nothing; a roll that is under way goes on with the plan in force."""
        self._words = self._words if self._roll is not None else ()
        self._record(error, 0)
        for asker in askers:
            self._answer(asker, error, done=True)

    def _read(self) -> tuple[Plan | None, str]:
        """The new plan, or why there is none. Whatever goes wrong here must not end a healthy pool."""
        if self._reread is None:
            return self._house.plan, ""
        try:
            plan = self._reread()
        except JobpoolError as error:
            return None, str(error)
        except Exception as error:
            log.error("reading the configuration failed", trace=traceback.format_exc())
            return None, f"{type(error).__name__}: {error}"
        forbidden = what_forbids(plan, self._house.premises.lanes)
        return (None, forbidden) if forbidden else (adopt(self._house.plan, plan), "")

    def _apply(self, plan: Plan, rolling: bool, now: float) -> list[Slot]:
        """Put the new plan in force; the slots whose children are now out of date."""
        before, house = self._house.plan, self._house
        changes = difference(before, plan, rolling=rolling)
        self._words = changes.words
        for key in changes.removed:
            house.let_go(house.children.forget_group(key), "group removed", now)
        for spec in plan.specs:
            group = house.children.groups.get(key_of(spec))
            if group is None:
                house.children.want(spec, count_in(plan, spec), source_in(plan, spec))
            else:
                house.children.want(spec, group.wanted, group.source)
        self._counts = {key: (count, source_in(plan, spec_in(plan, key))) for key, count in changes.counts.items()}
        self._set_counts(now, without=changes.replaced)
        self._put_in_force(plan)
        self._undo = self._way_back(before, changes.replaced)
        for notice in plan.notices:
            log.warning(notice)
        return [slot for key in self._workers_first(changes.replaced) for slot in house.children.of_group(key)]

    def _set_counts(self, now: float, *, without: tuple[GroupKey, ...] = ()) -> None:
        """The new counts; those of groups that are to be replaced only after the first new child has proved the code."""
        for key, (count, source) in [entry for entry in self._counts.items() if entry[0] not in without]:
            del self._counts[key]
            group = self._house.children.groups[key]
            self._house.let_go(self._house.children.want(group.spec, count, source), "smaller count", now)

    def _put_in_force(self, plan: Plan) -> None:
        self._house.plan = plan
        self._on_plan(plan)

    def _way_back(self, before: Plan, replaced: tuple[GroupKey, ...]) -> Callable[[], None]:
        """If the first new child fails, places that are filled again later get the old spec, and the plan is the old one."""

        def undo() -> None:
            old = {key_of(spec): spec for spec in before.specs}
            for key in filter(self._house.children.groups.__contains__, replaced):  # a later plan may have removed one
                group = self._house.children.groups[key]
                self._house.children.want(old[key], group.wanted, group.source)
            self._put_in_force(before)

        return undo

    @staticmethod
    def _workers_first(keys: tuple[GroupKey, ...]) -> list[GroupKey]:
        return sorted(keys, key=lambda key: (key[0] != Role.WORKER, key[0]))

    # ------------------------------------------------------------------ the outcome

    def _tell_those_who_do_not_wait(self, roll: Roll, now: float) -> None:
        what_holds_it = self._house.complaints.get(NO_ROOM, "") if now - self._began > PATIENCE_S else ""
        if roll.is_over or not (roll.is_decided or what_holds_it):
            return
        waiting = [asker for asker in self._askers if asker.wait]
        for asker in self._askers:
            if not asker.wait:
                self._answer(asker, roll.error, done=False, held_by="" if roll.is_decided else what_holds_it)
        self._askers = waiting

    def _finish(self, error: str, now: float) -> None:
        replaced = self._roll.replaced if self._roll is not None else 0
        if error and replaced == 0 and self._undo is not None:
            self._undo()
        if self._is_reload:
            self._record(error, replaced)
        for asker in self._askers:
            self._answer(asker, error, done=True)
        self._askers, self._roll, self._undo = [], None, None
        if error and self._left_over:
            self._go_on_with_the_roll_before(now)

    def _go_on_with_the_roll_before(self, now: float) -> None:
        """What followed it has failed, and its plan is in force again: its own code was proved."""
        slots, self._left_over, self._is_reload = self._left_over, [], False
        self._roll = Roll(self._house, self._replacing, slots, "reload", now, is_proven=True)

    def _record(self, error: str, replaced: int) -> None:
        if not error and self.last is not None and not self.last.ok and self.last.at > self._began_wall:
            log.info("rolled", replaced=replaced)  # what has failed since is the later word
            return
        self.last = LastReload(wall_now(), not error, error, self._words)
        if error:
            log.error("reload failed", why=error)
        else:
            log.info("reloaded", changes=list(self._words), replaced=replaced)

    def _answer(self, asker: Asker, error: str, *, done: bool, held_by: str = "") -> None:
        if error:
            asker.reply(409, {"ok": False, "error": error})
        elif held_by:
            message = f"the new configuration is in force, but not proved by a new worker yet: {held_by}"
            asker.reply(202, {"ok": True, "done": False, "changes": list(self._words), "message": message})
        else:
            asker.reply(200, {"ok": True, "done": done, "changes": list(self._words)})


def _both(*steps: Callable[[], None] | None) -> Callable[[], None]:
    """One after the other."""

    def act() -> None:
        for step in filter(None, steps):
            step()

    return act
