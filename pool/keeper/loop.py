"""The keeper: renews leases, settles departures, promotes, recovers, fires the schedule, forgets, and posts the bulletin.

It leaves last. On SIGTERM, or when the supervisor is gone, it works on until no worker of its board lives and every
departure is settled; with the store away it then keeps the departures on disk for the next start.
"""

import contextlib
import os
import resource
import signal

from pool import config as configuration
from pool.backends.contract import Backend
from pool.backends.opening import open_backend
from pool.backends.spool import folder_of
from pool.board.record import Exit, State
from pool.clock import monotonic_now
from pool.descriptors import readable
from pool.errors import BackendUnavailable
from pool.keeper import storewide
from pool.keeper.alerts import LOOK_EVERY_S, Alerts
from pool.keeper.beat import Heartbeat
from pool.keeper.bulletin import BulletinWriter
from pool.keeper.burials import Burials, settle_or_report
from pool.keeper.chores import Chore
from pool.keeper.crew import Crew
from pool.keeper.facts import Facts
from pool.keeper.rules import StoreRules
from pool.keeper.schedule import Timetable
from pool.keeper.sheaves import Sheaves
from pool.logs import log
from pool.seat import Seat
from pool.settings import Config

BEAT_AT_MOST_EVERY_S = 2.0
BEAT_IDLE_EVERY_S = 10.0
BULLETIN_IDLE_EVERY_S = 5.0
# Soonest after the last promotion that an alarm is answered: whoever schedules thousands of jobs must not keep us awake.
ALARM_AFTER_S = 0.05
GIVE_UP_STORE_AFTER_S = 3.0
# Well below the time that the supervisor gives us when it stops at once.
KEEP_DEPARTURES_AFTER_S = 0.5
MOST_DESCRIPTORS = 16_384
# Clients by name wait for the types that the first worker writes down while it boots.
EXPECT_TYPES_S = 5.0


def run_keeper(config: Config, seat: Seat) -> int:
    """The keeper child's whole life; returns its exit code."""
    _make_room_for_descriptors()
    backend = open_backend(configuration.backend_url(config), namespace=config.backend.namespace)
    keeper = Keeper(config, seat, backend)
    keeper.listen_for_signals()
    keeper.announce_ready()
    keeper.run()
    backend.close()
    return 0


class Keeper:
    """One turn: settle departures, renew first, then whatever chore is due, one store step each; then sleep."""

    def __init__(self, config: Config, seat: Seat, backend: Backend) -> None:
        self.config, self.seat, self.backend = config, seat, backend
        self.pool = seat.worker.pool
        self.crew = Crew(seat.board, self.pool)
        url, namespace = configuration.backend_url(config), config.backend.namespace
        spool = folder_of(configuration.state_dir(config), url, namespace)
        self.burials = Burials(backend, self.crew, spool, str(self.pool))
        self.sheaves = Sheaves(seat.board, self.crew, backend, seat.lock_fd)
        self.facts = Facts(config, seat.board)
        lease = config.backend.lease
        self.heart = Heartbeat(backend, self.crew, self.pool, seat.parent, lease, self.facts.now)
        beat_every = min(BEAT_AT_MOST_EVERY_S, lease / 6)
        self._beat_idle_every = min(BEAT_IDLE_EVERY_S, lease / 6)
        self.renewal = Chore("renew leases", beat_every, self.renew)
        self.burial = Chore("settle departures", 1.0, self.settle_departures)
        timetable = Timetable(config, backend, self.facts.known_types)
        self.bulletin = BulletinWriter(seat.board, backend, config, self.sheaves.attend)
        self.promotion = Chore("promote due jobs", 1.0, self.promote)
        self.posting = Chore("post the bulletin", 1.0, self.post_bulletin)
        self.chores = [
            Chore("replay the spool", 1.0, self.replay_once),
            Chore("apply queue settings", 1.0, self.apply_queue_settings),
            Chore("apply store-wide rules", 1.0, StoreRules(config, backend, self.facts).apply),
            self.promotion,
            Chore("recover lost pools", storewide.recovery_period(lease), self.recover_expired),
            Chore("fire the schedule", 1.0, timetable.fire),
            self.posting,
            Chore("forget old records", storewide.forget_period(config.retention), self.forget),
            Chore("alert", LOOK_EVERY_S, Alerts(config, self.pool.name, self.pool.host, timetable.missed).look),
        ]
        self.is_stopping = False
        self.is_replayed = False
        self._is_idle = self._is_posting_seldom = False
        self._promoted_at = 0.0
        self._alarm: int | None = None
        self._expect_types_until = monotonic_now() + EXPECT_TYPES_S
        self._wake_read, self._wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def listen_for_signals(self) -> None:
        """SIGTERM asks us to leave last; everything else people send by name is ignored."""
        for ignored in (signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGPIPE, signal.SIGURG):
            signal.signal(ignored, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, self._note_stop)
        signal.signal(signal.SIGALRM, self._keep_departures)
        signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)

    def announce_ready(self) -> None:
        self._show_life(State.IDLE)
        self.seat.record.sheaf.write(0.0, 1, 0)  # no lanes of ours need be read
        with contextlib.suppress(BlockingIOError):  # a full pipe wakes the parent all the same
            os.write(self.seat.announce_fd, b"k")

    def run(self) -> None:
        """Turn until everyone has left and every departure is settled or kept on disk."""
        while not (self._may_leave() and self._is_settled()):
            self.turn()
            self.sleep()
        self._leave()

    def turn(self) -> None:
        """What is due now. Renewal comes first and again between chores; each chore is one bounded step."""
        self._watch_the_parent()
        now = monotonic_now()
        for chore in [chore for chore in (self.burial, *self.chores) if chore.is_due(now)]:
            self.sheaves.attend()
            self._if_due(self.renewal)
            self._if_due(chore)
            self._show_life(State.BUSY)
            if self.is_stopping and self._store_is_away():
                break  # each further call would cost its whole timeout, and there is something to write down
        self._if_due(self.renewal)
        self._heed_news()
        self._show_life(State.IDLE)

    def sleep(self) -> None:
        """Until the next chore, a death note or a signal; at most a second, so that life is shown."""
        next_due = min(chore.due_at for chore in (self.renewal, self.burial, *self.chores))
        longest = 1.0 if self.facts.has_types or monotonic_now() > self._expect_types_until else 0.1
        seconds = max(0.0, min(longest, next_due - monotonic_now()))
        self._heed(self._rest(seconds))

    def _heed_news(self) -> None:
        """Other types, or work after a rest: the store and the bulletin learn of it at once. But first of a death, which
        may have woken us: what the dead held is somebody's next job."""
        if self.facts.have_changed() or (self._is_idle and self.crew.holds_anything()):
            self.renewal.hurry()
            self.posting.hurry()
            self._is_idle = False

    def _heed(self, ready: list[int]) -> None:
        if self._alarm in ready:
            ready.remove(self._alarm)
            self.promotion.hurry(self._promoted_at + ALARM_AFTER_S)
        for fd in ready:
            _drain(fd)
        if ready:
            self.burial.hurry()

    def _ears(self) -> list[int]:
        """The alarm is left alone where we shall look so soon anyway."""
        is_soon = self.promotion.due_at < monotonic_now() + ALARM_AFTER_S
        self._alarm = None if is_soon else self.backend.alarm()
        return [self._wake_read, self.seat.note_fd, *([] if self._alarm is None else [self._alarm])]

    def _rest(self, seconds: float) -> list[int]:
        """What became readable, if anything. Whoever claims ahead is looked after meanwhile."""
        ears = self._ears()
        end = monotonic_now() + seconds
        while True:
            self.sheaves.attend()
            left = max(0.0, end - monotonic_now())
            ready = readable(ears, min(left, self.sheaves.pause()))
            if ready or monotonic_now() >= end:
                return ready

    # ------------------------------------------------------------------ chores

    def renew(self, now: float) -> float | None:
        """Often while something runs, for a beat brings word of cancelled jobs too; seldom while nothing does."""
        self._is_idle = not self.heart.renew()
        return self._beat_idle_every if self._is_idle else None

    def settle_departures(self, now: float) -> None:
        """With the store known to be away: on disk first, for we may be killed while the call hangs."""
        if self._store_is_away():
            self.burials.save_to_spool()
        self.burials.settle()

    def replay_once(self, now: float) -> float | None:
        """Before the first recovery: a result kept on disk must not be overtaken by giving its job away."""
        self.burials.replay_spool()
        self.burials.rehearse()
        self.is_replayed = True
        return float("inf")

    def apply_queue_settings(self, now: float) -> float | None:
        return storewide.apply_queue_settings(self.config, self.backend)

    def promote(self, now: float) -> float | None:
        """Also when an alarm says that a sooner time has come into the store; news of waiting jobs are posted at once."""
        self._promoted_at = now
        promotion = self.backend.promote()
        if promotion.is_waiting and self._is_posting_seldom:
            self.posting.hurry()
        return storewide.pause_after(promotion, self.backend)

    def recover_expired(self, now: float) -> float | None:
        if not self.is_replayed:
            return 0.2
        storewide.recover_expired(self.backend)
        return None

    def post_bulletin(self, now: float) -> float | None:
        """Each second; seldom while nothing waits or runs."""
        others = (chore for chore in (self.renewal, self.burial, *self.chores) if chore.do != self.post_bulletin)
        is_busy = self.bulletin.post(next((chore.trouble for chore in others if chore.is_store_away), None))
        self._is_posting_seldom = not is_busy
        return None if is_busy else BULLETIN_IDLE_EVERY_S

    def forget(self, now: float) -> float | None:
        return storewide.forget(self.backend, self.config.retention)

    # ------------------------------------------------------------------ leaving

    def _may_leave(self) -> bool:
        return (self.is_stopping or self.burials.parent_is_gone) and not any(True for _ in self.crew.living())

    def _is_settled(self) -> bool:
        """All told to the store, or kept on disk because it stayed away."""
        if self._store_is_away():
            self.burials.save_to_spool()
        if settle_or_report(self.burials):
            return True
        give_up_at = monotonic_now() + GIVE_UP_STORE_AFTER_S
        while monotonic_now() < give_up_at:
            if readable([self._wake_read], 0.2):
                _drain(self._wake_read)
            self._show_life(State.BUSY)
            if settle_or_report(self.burials):
                return True
        kept = self.burials.save_to_spool()
        log.error("departures kept on disk for the next start", count=kept, folder=str(self.burials.spool))
        return True

    def _store_is_away(self) -> bool:
        return any(chore.trouble for chore in (self.renewal, self.burial, *self.chores))

    def _leave(self) -> None:
        try:
            self.backend.leave(self.pool)
        except BackendUnavailable as error:
            log.warning("could not sign off at the store", error=str(error))
        self.seat.record.process.write(State.RETIRING, Exit.STOPPED, monotonic_now(), monotonic_now(), 0.0, 0, 0, 0, 0)

    def _watch_the_parent(self) -> None:
        if not self.burials.parent_is_gone and os.getppid() != self.seat.parent.pid:
            self.burials.parent_is_gone = True
            log.error("supervisor is gone; staying until the last worker has left")

    # ------------------------------------------------------------------ small things

    def _if_due(self, chore: Chore) -> None:
        now = monotonic_now()
        if chore.is_due(now) and not chore.attempt(now) and chore.is_store_away:
            self.bulletin.post_absence(chore.trouble)

    def _show_life(self, state: State) -> None:
        now = monotonic_now()
        self.seat.record.process.write(state, Exit.NONE, now, now, 0.0, 0, 0, 0, 0)

    def _note_stop(self, *_: object) -> None:
        self.is_stopping = True
        signal.setitimer(signal.ITIMER_REAL, KEEP_DEPARTURES_AFTER_S)

    def _keep_departures(self, *_: object) -> None:
        """Told to stop a while ago and still here: perhaps a call to the store hangs, and a stop at once will not wait
        for its end. This handler runs in the midst of it. Telling a departure twice is harmless.
        """
        self.burials.save_to_spool()


def _make_room_for_descriptors() -> None:
    """A pidfd for each worker: the usual soft limit of 1,024 is too low for a big pool."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, MOST_DESCRIPTORS)), hard))


def _drain(fd: int) -> None:
    try:
        while os.read(fd, 4096):
            pass
    except BlockingIOError:
        pass
