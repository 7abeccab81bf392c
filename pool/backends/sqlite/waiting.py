"""How a worker sleeps: on its bell. In case a ring was lost the store is looked at once a second: by the keeper for all
who sleep (`patrol.py`), by a worker itself while no keeper lives.
"""

import os
from contextlib import suppress
from dataclasses import dataclass
from math import inf

from pool.backends.contract import Want
from pool.backends.sqlite.bell import KEEPER, OwnBell
from pool.backends.sqlite.statements import statements
from pool.backends.sqlite.store import Stamp, Store
from pool.backends.sqlite.transaction import Transaction
from pool.backends.sqlite.work import queue_numbers
from pool.clock import monotonic_now
from pool.descriptors import readable
from pool.errors import JobpoolError
from pool.logs import log

_SQL = statements("waiting.sql")
SLICE_S = 1.0
_SWEEP_S = 60.0


@dataclass(frozen=True, slots=True)
class Seen:
    """What the last look into the store showed, and the stamp it had then."""

    stamp: Stamp | None
    eligible: bool
    next_due: float


class Waiting:
    """The bells one process listens to, one per class it serves (nearly always one)."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._bells: dict[Want, OwnBell] = {}
        self._pid = os.getpid()
        self._swept_at = 0.0
        self._seen: dict[Want, Seen] = {}
        self._last_want: Want | None = None
        self._last_bell: OwnBell | None = None
        self._alarm: OwnBell | None = None

    def wait(self, want: Want, seconds: float, interrupt_fd: int | None, watched: bool) -> bool:
        """Return when there may be work (True), after `seconds`, or on the interrupt. Never raises for an absent store.

        `watched`: the store is left alone meanwhile, but for a look whether its file is still the one we know."""
        deadline = monotonic_now() + seconds
        while True:
            bell = self._bell_in_place(want)
            if bell is not None:
                bell.watch(interrupt_fd)
            if watched and bell is not None:
                self._store.look_at_file()
                return bell.sleep(seconds).rung
            woken = self._sleeps_through(want, deadline, bell, interrupt_fd)
            if woken is not None:
                return woken

    def _sleeps_through(
        self, want: Want, deadline: float, bell: OwnBell | None, interrupt_fd: int | None
    ) -> bool | None:
        """Nap after nap, as lean as can be, until there is reason to return; None: the bell must be hung anew."""
        while bell is None or bell.is_in_place():
            left, nap = max(deadline - monotonic_now(), 0.0), self._longest_nap(want)
            pause = min(left, nap)
            if pause <= 0:
                return nap <= 0
            if bell is None:
                return False if _sleep_without_bell(pause, interrupt_fd) else None
            woken = bell.sleep(pause)
            if woken.rung or woken.interrupted:
                return woken.rung
        return None

    def _longest_nap(self, want: Want) -> float:
        """Seconds until the next look: 0 when there is work, never past a due time, at most a slice."""
        now = self._store.host.wall()
        try:
            if not self._is_unchanged(want):
                self._look(want)
        except (JobpoolError, OSError):
            self._seen.pop(want, None)
            return SLICE_S
        seen = self._seen[want]
        if seen.eligible or seen.next_due <= now:
            del self._seen[want]
            return 0.0
        return min(seen.next_due - now, SLICE_S)

    def _is_unchanged(self, want: Want) -> bool:
        """Whether nobody has committed since our last look: an idle worker then leaves the database alone."""
        self._store.look_at_file()
        seen = self._seen.get(want)
        return seen is not None and seen.stamp is not None and seen.stamp == self._store.stamp()

    def _look(self, want: Want) -> None:
        """The stamp is read first: what is committed meanwhile changes it again. A young one is not trusted."""
        stamp = self._store.settled_stamp()
        eligible, next_due = self._store.read(lambda tx: look(tx, want))
        self._seen[want] = Seen(stamp, eligible, inf if next_due is None else next_due)

    def alarm(self) -> int | None:
        """The keeper's own bell, as a descriptor to sleep on."""
        bell = self._alarm
        if bell is None or self._pid != os.getpid() or not bell.is_in_place():
            bell = self._alarm = self._bell(KEEPER)
        return None if bell is None else bell.fd

    def quiet_alarm(self) -> None:
        """Before the look that answers it."""
        if self._alarm is not None and self._pid == os.getpid():
            self._alarm.drain()

    def pass_on(self, want: Want) -> None:
        """There is more for this class: wake one more of it."""
        bell = self._same_bell(want) or self._bell(want)
        self._last_want, self._last_bell = want, bell
        if bell is not None:
            bell.ring()

    def _same_bell(self, want: Want) -> OwnBell | None:
        """Mostly the very want of the last time asks again."""
        return self._last_bell if want is self._last_want and self._pid == os.getpid() else None

    def _bell_in_place(self, want: Want) -> OwnBell | None:
        bell = self._same_bell(want)
        if bell is None or not bell.is_in_place():
            bell = self._bell(want)
            self._last_want, self._last_bell = want, bell
        return bell

    def _bell(self, want: Want) -> OwnBell | None:
        """Our bell of this class, hung up if need be; None where it cannot be (then the slices must do)."""
        if self._pid != os.getpid():
            self.close()
            self._pid = os.getpid()
        key = Want(want.queues, want.min_priority, want.max_priority, want.reserved)
        bell = self._bells.get(key)
        if bell is not None and bell.is_in_place():
            return bell
        if bell is not None:
            self._bells.pop(key).close()
            self._last_want = self._last_bell = None
        try:
            if self._store.stat is None:
                self._store.read(lambda tx: None)
            self._bells[key] = self._store.hang_bell(key)
        except (OSError, JobpoolError) as problem:
            log.debug("no bell: waiting by looking once a second", problem=str(problem))
            return None
        return self._bells[key]

    def sweep(self) -> None:
        """Now and then remove the bells of classes that nobody listens to any more."""
        if monotonic_now() - self._swept_at > _SWEEP_S:
            self._swept_at = monotonic_now()
            self._store.bells.sweep()

    def close(self) -> None:
        for bell in self._bells.values():
            with suppress(OSError):
                bell.close()
        self._bells.clear()
        self._last_want = self._last_bell = self._alarm = None
        self._seen.clear()


def look(tx: Transaction, want: Want) -> tuple[bool, float | None]:
    """Whether a job for this class is pending, and when the next scheduled one is due."""
    name = "eligible of any" if want.is_any else "eligible of list"
    queues = want.reserved if want.is_any else want.queues
    eligible, next_due = tx.run(
        _SQL[name], (want.min_priority, want.max_priority, queue_numbers(tx, queues))
    ).fetchone()
    return bool(eligible) or (next_due is not None and next_due <= tx.now), next_due


def _sleep_without_bell(seconds: float, interrupt_fd: int | None) -> bool:
    interrupts = [] if interrupt_fd is None else [interrupt_fd]
    return bool(readable(interrupts, seconds))
