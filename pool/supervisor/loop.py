"""The supervisor: keeps the planned children alive until told to stop. One thread, one selector, no store, no user code."""

import functools
import gc
import selectors
import signal
from collections.abc import Iterable

from pool import logs
from pool.board.board import Board
from pool.board.record import Exit, Ordered, Role, State
from pool.clock import boottime_now, monotonic_now, wall_now
from pool.logs import log
from pool.supervisor import restarts
from pool.supervisor.children import Child, Children, Slot, Stage
from pool.supervisor.control import LastReload, Reply, Resident
from pool.supervisor.deaths import send
from pool.supervisor.executions import kill_by_order
from pool.supervisor.fork import adopt_orphans
from pool.supervisor.funerals import Funerals, Loss, Place
from pool.supervisor.house import House
from pool.supervisor.inspection import Inspection
from pool.supervisor.lock import RuntimeLock
from pool.supervisor.planned import Plan, Reread
from pool.supervisor.premises import drain
from pool.supervisor.replacing import Replacing
from pool.supervisor.signals import Letter, Post, has_terminal
from pool.supervisor.stopping import Stopping

LOOK_EVERY_S = 1.0
# Between two births the loop turns, so that a stop is never kept waiting by a big pool that is starting.
BIRTHS_PER_TURN = 8
# A key held down, or a terminal that sends twice, is one wish.
SECOND_INTERRUPT_AFTER_S = 0.5
# So late a turn means that we were stopped or the machine slept: the children may have been, too.
GAP_S = 2.0
EXIT_CANNOT_START = 78
EXIT_BURST_HAD_DEATHS = 1


class Supervisor:
    """`run()` once. `reread` gives the plan anew for a reload; `residents` live in the same loop (status socket, systemd)."""

    def __init__(self, plan: Plan, reread: Reread | None = None, residents: Iterable[Resident] = ()) -> None:
        self.plan = plan
        self.children = Children()
        self.last_reload: LastReload | None = None
        self.started_wall = self.state_since = wall_now()
        self.turned_at = monotonic_now()
        self.failure = ""
        self._reread = reread
        self._residents = tuple(residents)
        self._state = "starting"
        self._is_started = False
        self._stopping: Stopping | None = None
        self._interrupted_at: float | None = None
        self._look_at = 0.0

    # ------------------------------------------------------------------ the life

    def run(self) -> int:
        """Keep the planned children alive until told to stop; returns the exit code.

        ConfigError when another supervisor has the runtime directory, or a resident cannot have its place.
        """
        post, lock = Post(), RuntimeLock(self.plan.runtime_dir)
        post.open()
        try:
            lock.take()
            return self._live(post)
        finally:
            lock.release()
            post.close()

    def _live(self, post: Post) -> int:
        self._move_in(post)
        try:
            while not (self._stopping is not None and self._stopping.is_over):
                self._turn()
                self._wait()
        finally:
            self._move_out()
        return self._stopping.code

    def _move_in(self, post: Post) -> None:
        self._post = post
        self._has_terminal = has_terminal() and not post.was_nohup
        adopt_orphans()
        self._house = House(self.plan, self.children)
        self._funerals = Funerals(self._house)
        self._replacing = Replacing(self._house)
        self._inspection = Inspection(self._house, monotonic_now())
        self._clock_gap = boottime_now() - monotonic_now()
        selector = self._house.premises.selector
        selector.register(post.wake_read, selectors.EVENT_READ, functools.partial(self._heed_wake, post.wake_read))
        announced = self._house.premises.announce_read
        selector.register(announced, selectors.EVENT_READ, functools.partial(self._heed_announcement, announced))
        for resident in self._residents:
            resident.open(self, selector)
        for spec in self.plan.specs:
            self.children.want(spec, spec.count, self.plan.count_sources.get(spec.group, "file"))
        for notice in self.plan.notices:
            log.warning(notice)
        # What is here now is shared with every child for good: the collector must not touch, and so copy, its pages.
        gc.collect()
        gc.freeze()

    def _move_out(self) -> None:
        for child in list(self.children.living()):
            kill_by_order(child, Ordered.STOP)
        for resident in reversed(self._residents):
            resident.close()
        self._house.premises.close()

    # ------------------------------------------------------------------ one turn

    def _turn(self) -> None:
        now = self.turned_at = monotonic_now()
        for letter in self._post.mailbox.take_all():
            self._obey(letter, now)
        self._bury(now)
        self._look(now)
        self._house.executions.turn(now)
        self._kill_overdue(now)
        if self._stopping is not None:
            self._stopping.turn(now)
        else:
            self._keep_planned(now)
        self._settle_state()
        for resident in self._residents:
            resident.turn(now)

    def _keep_planned(self, now: float) -> None:
        self._replacing.turn(now)
        self._fill_gaps(now)
        self._see_whether_started(now)

    def _wait(self) -> None:
        until = self._next_deadline()
        events = self._house.premises.selector.select(max(0.0, until - monotonic_now()))
        self._excuse_gap(until)
        for key, mask in events:
            key.data(mask)

    def _next_deadline(self) -> float:
        now = monotonic_now()
        wishes = [self._look_at, self._house.executions.next_deadline(now), self._inspection.next_hard_deadline]
        wishes += [child.deadline for child in self.children.living()]
        wishes += [resident.next_deadline() for resident in self._residents]
        if self._stopping is not None:
            wishes.append(self._stopping.next_deadline(now))
        else:
            wishes += [slot.next_start for slot in self.children.slots.values() if slot.needs_birth]
        return min(wish for wish in wishes if wish is not None)

    def _excuse_gap(self, planned: float) -> None:
        """Suspend, or SIGSTOP of everybody: clocks that ran meanwhile prove nothing about the children."""
        now = monotonic_now()
        slept = boottime_now() - now
        if now - planned > GAP_S or slept - self._clock_gap > GAP_S:
            log.warning("the supervisor was away", seconds=round(max(now - planned, slept - self._clock_gap), 1))
            self._inspection.start_anew(now)
            for child in self.children.living():
                if child.deadline is not None and child.deadline_order == Ordered.BOOT:
                    child.deadline = max(child.deadline, now + child.spec.boot_timeout)
        self._clock_gap = slept

    def _heed_wake(self, fd: int, mask: int) -> None:
        drain(fd)

    def _heed_announcement(self, fd: int, mask: int) -> None:
        drain(fd)
        self._look_at = 0.0

    # ------------------------------------------------------------------ signals

    def _obey(self, letter: Letter, now: float) -> None:
        if letter.signal == signal.SIGTERM:
            self.stop(now, why="SIGTERM")
        elif letter.signal == signal.SIGINT:
            self._interrupt(letter.at, now)
        elif letter.signal == signal.SIGQUIT:
            self.stop(now, why="SIGQUIT", at_once=True)
        elif letter.signal == signal.SIGUSR1:
            self._reopen_logs()
        elif letter.signal == signal.SIGHUP and self._has_terminal and not has_terminal():
            self.stop(now, why="the terminal was closed")

    def _interrupt(self, at: float, now: float) -> None:
        first = self._interrupted_at
        if first is None:
            self._interrupted_at = at
        is_second = first is not None and at - first > SECOND_INTERRUPT_AFTER_S
        self.stop(now, why="SIGINT", at_once=is_second)

    def _reopen_logs(self) -> None:
        logs.reopen()
        for child in self.children.living():
            if child.was_ready:
                send(child, signal.SIGUSR1)

    def stop(self, now: float, *, why: str, at_once: bool = False, code: int = 0) -> None:
        """Begin to stop; a repetition changes nothing but, with `at_once`, ends the patience."""
        if self._stopping is None:
            self._stopping = Stopping(self._house, self._funerals, now, code=code, why=why)
        if at_once:
            self._stopping.hurry(now)

    # ------------------------------------------------------------------ births and deaths

    def _fill_gaps(self, now: float) -> None:
        waiting = [slot for slot in self.children.slots.values() if slot.needs_birth and slot.next_start <= now]
        for slot in waiting[:BIRTHS_PER_TURN]:
            self._house.births.bear(slot)

    def _bury(self, now: float) -> None:
        losses, may_be_more = self._funerals.bury_the_dead()
        for loss in losses:
            self._learn_from(loss, now)
        if may_be_more:
            self._look_at = 0.0

    def _learn_from(self, loss: Loss, now: float) -> None:
        slot, exit = loss.slot, loss.exit
        slot.last_exit = exit
        if not exit.planned:
            slot.restarts += 1
            self._house.deaths += loss.child.role == Role.WORKER
        if exit.announced == Exit.BURST_DONE and exit.planned:
            slot.is_done = True
        if loss.place is not Place.LEAVER:
            verdict = restarts.judge(slot.spec, slot.failures, slot.boot_failures, exit)
            restarts.apply(verdict, slot, now)
            if verdict.parked_why:
                log.error("slot is parked", slot=slot.number, for_s=verdict.delay_s, why=verdict.parked_why)
        if self._stopping is not None:
            self._stopping.saw(loss)

    def _kill_overdue(self, now: float) -> None:
        for child in list(self.children.living()):
            if child.deadline is not None and child.deadline <= now:
                if child.deadline_order == Ordered.BOOT:
                    log.error("child did not become ready in time", slot=child.slot, within_s=child.spec.boot_timeout)
                kill_by_order(child, child.deadline_order)

    # ------------------------------------------------------------------ the board

    def _look(self, now: float) -> None:
        if now < self._look_at:
            return
        self._look_at = now + LOOK_EVERY_S
        self._funerals.free_settled_records()
        for child in list(self.children.living()):
            self._heed(child, now)
        self._inspection.look(now)

    def _heed(self, child: Child, now: float) -> None:
        process = child.record.process.read()
        if child.stage is Stage.BORN and process.state != State.BOOTING and process.exit == Exit.NONE:
            self._heed_ready(child, now)
        if process.exit != Exit.NONE and child.stage is not Stage.RETIRING:
            self._replacing.heed_exit(child, Exit(process.exit), now)

    def _heed_ready(self, child: Child, now: float) -> None:
        log.info("child ready", slot=child.slot, pid=child.pid, after_s=round(now - child.born_at, 3))
        self._replacing.heed_ready(child, now)
        if self._stopping is not None:
            self._stopping.saw_ready(child)

    # ------------------------------------------------------------------ what the whole pool is

    def _see_whether_started(self, now: float) -> None:
        slots = [slot for slot in self.children.slots.values() if slot.wanted]
        workers = [slot for slot in slots if slot.role == Role.WORKER] or slots
        if not self._is_started:
            settled = all(slot.is_ready or slot.is_done or slot.failures for slot in slots)
            self._is_started = settled and any(slot.was_ever_ready for slot in workers)
        if not self._is_started and all(slot.boot_failures and not slot.was_ever_ready for slot in workers):
            self._give_up(workers, now)
        if workers and all(slot.is_done for slot in workers):
            self.stop(now, why="burst is done", code=EXIT_BURST_HAD_DEATHS if self._house.deaths else 0)

    def _give_up(self, workers: list[Slot], now: float) -> None:
        exits = [slot.last_exit for slot in workers if slot.last_exit is not None]
        self.failure = next((exit.remark for exit in exits if exit.remark), exits[0].sentence if exits else "")
        log.error("no worker could start", trace=self.failure)
        self.stop(now, why="no worker could start", code=EXIT_CANNOT_START)

    def state(self) -> str:
        """starting, ready, degraded, draining, reloading or stopping."""
        return self._state

    def _settle_state(self) -> None:
        state = self._state_now()
        if state == self._state:
            return
        self._state, self.state_since = state, wall_now()
        log.info("pool is " + state)
        for resident in self._residents:
            resident.state_changed(state)

    def _state_now(self) -> str:
        if self._stopping is not None:
            return "stopping"
        if not self._is_started:
            return "starting"
        groups = [group for group in self.children.groups.values() if group.spec.role == Role.WORKER]
        if groups and all(group.draining for group in groups):
            return "draining"
        lacking = (s for s in self.children.slots.values() if s.needs_birth and (s.failures or s.is_parked))
        return "degraded" if any(lacking) else "ready"

    @property
    def board(self) -> Board:
        """The board on which the children write."""
        return self._house.premises.board

    def problems(self) -> list[str]:
        """Sentences for people."""
        parked = [f"slot {s.number}: {s.parked_why}" for s in self.children.slots.values() if s.is_parked]
        refused = [self._house.births.refusal] if self._house.births.refusal else []
        return [*self._house.complaints.values(), *parked, *refused]

    def command(self, verb: str, options: dict[str, object], reply: Reply) -> None:
        """Do a verb of the status socket."""
        reply(404, {"error": f"unknown verb {verb!r}"})


