"""One process, one job at a time: claim (settling the previous job in the same step), run, repeat; rest on the bell; leave when told to."""

import gc
import os
from types import FrameType

from pool.backends import spool
from pool.backends.contract import Backend
from pool.backends.opening import open_backend
from pool.board.record import Exit, State
from pool.clock import monotonic_now
from pool.config import backend_url
from pool.errors import BackendUnavailable, LaneBarred
from pool.jobs.job import Outcome
from pool.jobs.registry import registry
from pool.logs import log
from pool.seat import Seat
from pool.settings import Config, GroupSection, WorkerKeys
from pool.worker import hooking
from pool.worker.boot import import_app, publish_types
from pool.worker.brief import Brief
from pool.worker.desk import GaveUp
from pool.worker.lane import Lane, Tools
from pool.worker.limits import Limits
from pool.worker.presence import Presence
from pool.worker.sheaf import Sheaf
from pool.worker.single import Single
from pool.worker.surroundings import Surroundings
from pool.worker.timeouts import Interrupts
from pool.worker.wants import want_of
from pool.worker.watchman import Watchman

SLICE_S = 1.0
BELL_SLICE_S = 4.8  # a sign of life is due every 5 s
WAKE_TOGETHER, WAKE_APART_S = 16, 0.2  # at the same moments: the first warms the processor's caches for the others
FALSE_RINGS = 20
WAIT_FOR_REPLACEMENT_S = 30.0
REPLACED_FIRST = (Exit.MEMORY, Exit.MAX_JOBS, Exit.MAX_AGE)


class Worker:
    """One process that runs one job at a time."""

    def __init__(
        self, config: Config, settings: WorkerKeys, seat: Seat, brief: Brief, presence: Presence | None = None
    ) -> None:
        self.config, self.seat, self.brief = config, seat, brief
        self.want = want_of(config, settings)
        own_stop_timeout = settings.stop_timeout if isinstance(settings, GroupSection) else None
        self.stop_timeout: float = own_stop_timeout or config.pool.stop_timeout
        self.claims_ahead = settings.claims_ahead
        self.presence = presence or Presence(seat)
        self.limits = Limits(settings)
        self.watchman = Watchman(seat.board)
        self._wake_phase_s = 0.1 * seat.parent.pid + WAKE_APART_S * (seat.worker.slot // WAKE_TOGETHER)
        self.around = Surroundings()
        self.mailbox = self.around.mailbox
        self.tools = Tools(
            seat=seat,
            presence=self.presence,
            mailbox=self.mailbox,
            stage=self.around.stage,
            registry=registry,
            lease_seconds=config.backend.lease,
            spool=brief.results,
        )
        self.lanes: list[Lane] = []
        self._is_booting = True
        self._found_nothing = False
        self._goes_straight = False  # to the job that was rung for: the limits were looked at before this sleep
        self._false_rings = 0
        self._new_orders, self._is_draining = seat.record.orders.news(), False

    # ------------------------------------------------------------ birth

    def boot(self) -> None:
        """Import the application; BootFailed when it cannot be used. The store need not answer for this."""
        self.mailbox.listen(self._note_stop, self.look)
        self.around.open()
        known = import_app(self.config)
        publish_types(self.config, self.brief.edition, known)
        hooking.boot()
        self.around.settle_in()
        self.presence.rss_bytes = self.limits.memory.size(monotonic_now())
        self.limits.refuse_ceiling_below(self.presence.rss_bytes)
        self.prepare()
        gc.collect()
        gc.freeze()  # what the app imported stays; the collector need not look at it again

    def prepare(self) -> None:
        """The lanes and their store."""
        self.backend = self._open_backend()
        self.lanes.append(self._make_lane(0))
        most, first = self._lane_count(), self.lanes[0]
        self.sheaf = Sheaf(self.seat, self.lanes, most, self._make_lane) if most > 1 else Single(self.seat, first)
        self.around.stage.after_write = self._raise_deferred

    def live(self) -> int:
        """Work until there is a reason to leave, then leave; the exit code of a planned end."""
        self._is_booting = False
        self.presence.announce_ready()
        try:
            self._open_the_bell()
            why = self.work() if self._replay_spool() else self._stop_reason()
        except LaneBarred:
            log.error("this worker was declared dead and its job given away; it leaves")
            why = Exit.BARRED
        except GaveUp:
            self.sheaf.keep_on_disk()
            why = self._stop_reason()
        return self.leave(why)

    # ------------------------------------------------------------ the turns

    def work(self) -> Exit:
        """Claim, run, settle, rest; returns why it is over, with nothing in hand."""
        while True:
            self.mailbox.obey_reopen()
            why = self.reason_to_leave()
            if self.take_next(why):
                self.carry_out()
            elif why:
                return why
            else:
                self.rest()

    def reason_to_leave(self) -> Exit | None:
        """Decided anew in each turn; an order comes before a limit."""
        if self.mailbox.is_stopping or self.around.is_orphan(self.seat.parent):
            return self._stop_reason()
        if self.brief.is_burst and self._found_nothing:
            return Exit.BURST_DONE
        if self.around.is_damaged:
            return Exit.MAX_JOBS
        if self._goes_straight:
            return None
        reached = self.limits.reached(self._jobs_done)
        self.presence.rss_bytes = self.limits.memory.last
        return reached

    def take_next(self, why: Exit | None) -> bool:
        """Hand in what has ended; take what comes next unless we leave or drain."""
        want = None if why or self.may_not_claim() else self.want
        has_work = self.sheaf.exchange(want)
        self._found_nothing = not has_work and want is not None
        return has_work

    def carry_out(self) -> None:
        """Run what was taken."""
        self._goes_straight = False
        self._false_rings = 0
        self.presence.show(State.BUSY)
        self.sheaf.carry_out(self.want, self._put_right)

    def _put_right(self, is_more: bool) -> bool:
        """The process, after a job; whether the next that is here already may start."""
        if not self.around.tidy_up():
            self._reconnect()
        return is_more and self.reason_to_leave() is None and not self.may_not_claim()

    def rest(self) -> None:
        """On the bell, in slices that show life, until there may be work, a signal came or a limit is reached."""
        self.presence.show(State.IDLE)
        self.sheaf.rest()
        if self.may_not_claim():
            self.mailbox.sleep(BELL_SLICE_S)
            return
        while not self.brief.is_burst and not self._is_called():
            self.presence.touch()

    def _jobs_done(self) -> int:
        """Jobs that have ended here, handed in or not."""
        held = (lane.in_hand for lane in self.lanes)
        in_hand = sum(word is not None and word.outcome is not Outcome.RETURNED for word in held)
        return self.presence.counts.jobs + in_hand

    def _is_called(self) -> bool:
        """Sleep a slice. Nothing is claimed when nobody called: a claim writes."""
        before = monotonic_now()
        slice_s = BELL_SLICE_S - (before - self._wake_phase_s) % BELL_SLICE_S
        rung = self.backend.wait(self.want, slice_s, self.mailbox.fd, watched=self.watchman.is_awake())
        slept_s = monotonic_now() - before
        self._note_false_ring(slept_s)
        self._goes_straight = rung and not self._goes_straight
        if rung:
            return True
        has_mail = slept_s < slice_s and self.mailbox.empty()
        return has_mail or self.reason_to_leave() is not None

    def _note_false_ring(self, slept_s: float) -> None:
        self._false_rings = self._false_rings + 1 if slept_s < 0.001 else 0
        if self._false_rings > FALSE_RINGS:  # a bell that rings for work we never get must not keep us spinning
            self.mailbox.sleep(0.02)

    def may_not_claim(self) -> bool:
        """Whether the parent has told us to drain."""
        orders = self._new_orders()
        if orders is not None:
            self._is_draining = bool(orders.draining)
        return self._is_draining

    # ------------------------------------------------------------ the end

    def leave(self, why: Exit) -> int:
        """Say that our end is planned; where a replacement comes first, wait for it; then go."""
        self.presence.announce_exit(why)
        log.info("worker leaves", why=why.name.lower(), jobs=self.presence.counts.jobs)
        if why in REPLACED_FIRST:
            self._wait_for_replacement()
        hooking.stop()
        self.close_store()
        return 0

    def close_store(self) -> None:
        """The last thing that may wait, and for a moment only."""
        self.backend.close()

    def _wait_for_replacement(self) -> None:
        deadline = monotonic_now() + WAIT_FOR_REPLACEMENT_S
        while not self.mailbox.is_stopping and monotonic_now() < deadline:
            self.mailbox.sleep(SLICE_S)
            self.presence.touch()

    def _stop_reason(self) -> Exit:
        return Exit.ORPHANED if self.around.is_orphan(self.seat.parent) else Exit.STOPPED

    # ------------------------------------------------------------ the lanes, the store and signals

    def _lane_count(self) -> int:
        """One for the job in hand, the others for claims ahead, as many as the board has room for."""
        can_be_locked = self.seat.lock_fd >= 0
        return min(len(self.seat.record.lanes), 1 + self.claims_ahead) if can_be_locked else 1

    def _make_lane(self, number: int) -> Lane:
        return Lane(self.tools, number, Interrupts(self.seat.record.lanes[number].order), self.backend)

    def _raise_deferred(self) -> None:
        self.sheaf.running.interrupts.raise_deferred()

    def _open_backend(self) -> Backend:
        return open_backend(backend_url(self.config), namespace=self.config.backend.namespace)

    def _open_the_bell(self) -> None:
        """Before the first claim: a job enqueued right after it must ring for us."""
        self.presence.enter_store()
        self.backend.wait(self.want, 0.0, self.mailbox.fd)
        self.presence.touch()

    def _replay_spool(self) -> bool:
        """Results of the last run first; False when we were told to stop before the store answered."""
        pause = 0.1
        while not self.mailbox.is_stopping:
            try:
                self.replay()
                return True
            except BackendUnavailable as error:
                log.limited("spool", "kept results wait for the store", error=str(error))
            self.presence.touch()
            self.mailbox.sleep(pause)
            pause = min(2 * pause, 5.0)
        return False

    def replay(self) -> int:
        """How many kept results the store has taken."""
        return spool.replay(self.backend, self.tools.spool)

    def _reconnect(self) -> None:
        """A job has closed descriptors that were not its own: nothing that was open can be trusted."""
        log.error("a job closed descriptors of its worker; the worker is replaced after it")
        self.presence.forget_descriptors()
        self.around.keep_alive(self.backend)
        self.backend = self._open_backend()
        self.sheaf.no_more()
        for lane in self.lanes:
            lane.connect(self.backend)

    def _note_stop(self) -> None:
        """In the signal handler of SIGTERM. An import may take its time, and nothing is held during it."""
        if self._is_booting:
            self.presence.announce_exit(Exit.STOPPED)
            os._exit(0)
        if self.around.is_orphan(self.seat.parent):
            self.limit_orphans()

    def look(self, number: int, frame: FrameType | None) -> None:
        """Handler of SIGURG and SIGALRM."""
        for lane in self.lanes:
            lane.interrupts.look(number, frame)

    def limit_orphans(self) -> None:
        """Nobody else will end a job that takes too long now."""
        for lane in self.lanes:
            lane.interrupts.limit_orphan(self.stop_timeout)
