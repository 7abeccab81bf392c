"""The supervisor: keeps the planned children alive until told to stop. One thread, one selector, no store, no user code."""

import functools
import gc
import selectors
import traceback
from collections.abc import Callable, Iterable

from pool.board.board import Board
from pool.clock import boottime_now, monotonic_now, wall_now
from pool.logs import log
from pool.supervisor import condition, heap
from pool.supervisor.absence import Absence
from pool.supervisor.children import Children
from pool.supervisor.control import LastReload, Reply, Resident
from pool.supervisor.fork import adopt_orphans
from pool.supervisor.house import House
from pool.supervisor.lock import RuntimeLock
from pool.supervisor.merging import Merging
from pool.supervisor.obedience import Obedience
from pool.supervisor.planned import Plan, Reread
from pool.supervisor.premises import drain
from pool.supervisor.reloading import Reloading
from pool.supervisor.scaling import Scaling
from pool.supervisor.signals import Post, terminal_exists
from pool.supervisor.status_desk import StatusDesk
from pool.supervisor.stopping import Stopping
from pool.supervisor.systemd import Systemd
from pool.supervisor.upkeep import Upkeep
from pool.supervisor.verbs import Verbs

EXIT_CANNOT_START = 78
EXIT_BURST_HAD_DEATHS = 1


class Supervisor:
    """`run()` once. `reread` gives the plan anew for a reload; `residents` live in the same loop.

    `failure` says, after exit code 78, in a child's own words why no worker could start.
    """

    def __init__(self, plan: Plan, reread: Reread | None = None, residents: Iterable[Resident] | None = None) -> None:
        self.plan = plan
        self.children = Children()
        self.started_wall = self.state_since = wall_now()
        self.failure = ""
        self._reread = reread
        self._residents: tuple[Resident, ...] = (StatusDesk(), Systemd()) if residents is None else tuple(residents)
        self._state = "starting"
        self._has_started = False
        self._stopping: Stopping | None = None
        self._post = Post()
        self._merging = Merging()

    # ------------------------------------------------------------------ the life

    def run(self) -> int:
        """Keep the planned children alive until told to stop; returns the exit code.

        ConfigError when another supervisor has the runtime directory, or a resident cannot have its place.
        """
        lock = RuntimeLock(self.plan.runtime_dir)
        self._post.open()
        try:
            lock.take()
            return self._live()
        finally:
            lock.release()
            self._post.close()

    def _live(self) -> int:
        self._move_in()
        try:
            self._turn()
            while self._stopping is None or not self._stopping.is_over:
                self._wait()
                self._turn()
            return self._stopping.code
        finally:
            self._move_out()

    def _move_in(self) -> None:
        now = monotonic_now()
        self._absence = Absence(now, boottime_now())
        adopt_orphans()
        self._house = House(self.plan, self.children)
        self._upkeep = Upkeep(self._house)
        self._scaling = Scaling(self._house, now)
        self._reloading = Reloading(self._house, self._upkeep.replacing, self._reread, self._take_plan)
        self._verbs = Verbs(self._house, self._scaling, self._reloading, self)
        has_terminal = terminal_exists() and not self._post.was_nohup
        self._obedience = Obedience(self._house, self._scaling, self._reloading, self, has_terminal=has_terminal)
        self._open_ears()
        for spec in self.plan.specs:
            self.children.want(spec, spec.count, self.plan.count_sources.get(spec.group, "file"))
        for notice in self.plan.notices:
            log.warning(notice)
        self._scaling.compare_with_memory()
        self._merging.want(self.plan.merge_memory)
        heap.settle()
        gc.enable()

    def _open_ears(self) -> None:
        premises = self._house.premises
        for fd, then in ((self._post.wake_read, self._heed_wake), (premises.announce_read, self._heed_announcement)):
            premises.selector.register(fd, selectors.EVENT_READ, functools.partial(then, fd))
        for resident in self._residents:
            resident.open(self, premises.selector)

    def _move_out(self) -> None:
        # No child is killed here: if a fault of ours ends the loop, they get SIGTERM from the kernel and finish their jobs.
        self._each_resident(lambda resident: resident.close())
        self._house.premises.close()

    # ------------------------------------------------------------------ one turn

    def _turn(self) -> None:
        now = self._checked_now()
        for letter in self._post.mailbox.take_all():
            self._obedience.obey(letter, now)
        if self._reloading.is_busy:
            self._settle_state()  # here too, so that a reload which ends within this turn is seen as one
        self._bury_the_dead(now)
        self._look_at_the_board(now)
        self._house.executions.turn(now)
        self._upkeep.kill_overdue(now)
        self._verbs.turn(now)
        self._keep_planned(now) if self._stopping is None else self._stopping.turn(now)
        self._settle_state()
        self._each_resident(lambda resident: resident.turn(now))

    def _bury_the_dead(self, now: float) -> None:
        for loss in self._upkeep.bury_the_dead(now):
            self._reloading.saw(loss)
            if self._stopping is not None:
                self._stopping.saw(loss)

    def _look_at_the_board(self, now: float) -> None:
        for child in self._upkeep.look(now):
            self._reloading.saw_ready(child)
            if self._stopping is not None:
                self._stopping.saw_ready(child)

    def _keep_planned(self, now: float) -> None:
        self._scaling.turn(now)
        self._reloading.turn(now)
        self._upkeep.replacing.turn(now)
        self._upkeep.fill_gaps(now)
        self._has_started = self._has_started or condition.has_started(self.children)
        if not self._has_started and condition.cannot_start(self.children):
            self._give_up(now)
        elif condition.burst_is_done(self.children):
            code = EXIT_BURST_HAD_DEATHS if condition.had_deaths(self.children) else 0
            self.stop(now, why="burst is done", code=code)

    def _wait(self) -> None:
        until = max(self._next_deadline(), self._checked_now())
        events = self._house.premises.selector.select(max(0.0, until - monotonic_now()))
        self._checked_now(slept_until=until)
        for key, mask in events:
            key.data(mask)

    def _next_deadline(self) -> float:
        now = monotonic_now()
        births = self._upkeep.birth_times() if self._stopping is None else []
        wishes = [
            *self._upkeep.deadlines(),
            *births,
            self._house.executions.next_deadline(now),
            self._verbs.next_deadline(now),
        ]
        wishes += [resident.next_deadline() for resident in self._residents]
        if self._stopping is not None:
            wishes.append(self._stopping.next_deadline(now))
        return min(wish for wish in wishes if wish is not None)

    def _checked_now(self, slept_until: float = 0.0) -> float:
        """The monotonic time; if we were away until now, nothing that ran out meanwhile is held against a child."""
        now = monotonic_now()
        away_s = self._absence.length(now, boottime_now(), slept_until=slept_until)
        if away_s:
            log.warning("the supervisor was away", seconds=round(away_s, 1))
            self._upkeep.start_clocks_anew(now)
        return now

    def _heed_wake(self, fd: int, mask: int) -> None:
        drain(fd)

    def _heed_announcement(self, fd: int, mask: int) -> None:
        drain(fd)
        self._upkeep.look_at = 0.0

    # ------------------------------------------------------------------ orders

    @property
    def is_stopping(self) -> bool:
        return self._stopping is not None

    def stop(self, now: float, *, why: str, at_once: bool = False, code: int = 0) -> None:
        """Begin to stop; a repetition changes nothing but, with `at_once`, ends the patience."""
        if self._stopping is None:
            self._stopping = Stopping(self._house, self._upkeep.funerals, now, code=code, why=why)
            self._reloading.abandon()
        if at_once:
            self._stopping.hurry(now)
        self._upkeep.look_at = 0.0  # the next turn comes at once

    def _give_up(self, now: float) -> None:
        self.failure = condition.why_it_cannot_start(self.children)
        log.error("no worker could start", trace=self.failure)
        self.stop(now, why="no worker could start", code=EXIT_CANNOT_START)

    def command(self, verb: str, options: dict[str, object], reply: Reply) -> None:
        """Do a verb of the status socket; `reply` is called once, now or turns later."""
        self._verbs.do(verb, options, reply, monotonic_now())

    def _take_plan(self, plan: Plan) -> None:
        self.plan = plan
        self._merging.want(plan.merge_memory)

    # ------------------------------------------------------------------ what residents read

    @property
    def board(self) -> Board:
        """The board on which the children write."""
        return self._house.premises.board

    @property
    def last_reload(self) -> LastReload | None:
        return self._reloading.last

    def problems(self) -> list[str]:
        """Sentences for people."""
        refusal = self._house.births.refusal
        return [*self._house.complaints.values(), *condition.parked_sentences(self.children), *filter(None, [refusal])]

    def state(self) -> str:
        """starting, ready, degraded, draining, reloading or stopping."""
        return self._state

    def _settle_state(self) -> None:
        state = self._state_now()
        if state == self._state:
            return
        self._state, self.state_since = state, wall_now()
        log.info("pool is " + state)
        self._each_resident(lambda resident: resident.state_changed(state))

    def _each_resident(self, act: Callable[[Resident], None]) -> None:
        """A fault in one of them must not cost the children their supervisor."""
        for resident in self._residents:
            try:
                act(resident)
            except Exception:
                name = type(resident).__name__
                log.limited(
                    name, "a resident of the loop failed", level="ERROR", who=name, trace=traceback.format_exc()
                )

    def _state_now(self) -> str:
        if self._stopping is not None:
            return "stopping"
        if self._reloading.is_busy:
            return "reloading"
        if not self._has_started:
            return "starting"
        if condition.is_draining(self.children):
            return "draining"
        return "degraded" if condition.is_degraded(self.children) else "ready"
