"""The keeper's look, once a second, for all who sleep: what is due, and which classes sleep beside pending work.

While nobody commits, a look costs a few `stat` calls: the stamp of the -wal tells that nothing can have changed, and what
time alone changes was noted at the last look.
"""

from dataclasses import dataclass
from math import inf

from pool.backends.contract import Want
from pool.backends.sqlite import waiting
from pool.backends.sqlite.statements import statements
from pool.backends.sqlite.store import Stamp, Store
from pool.backends.sqlite.transaction import Transaction

_SQL = statements("upkeep.sql")


@dataclass(frozen=True, slots=True)
class Sight:
    """What a look showed. Times are the store's wall clock, `inf` for never."""

    stamp: Stamp | None
    next_event: float  # a job is due, or a used-up rate opens
    next_expiry: float
    is_waiting: bool  # some queue that is not paused has pending jobs
    sleepers: tuple[Want, ...]  # classes that could take one of them

    def has_due(self, now: float) -> bool:
        return min(self.next_event, self.next_expiry) <= now


class Patrol:
    """Of one process; remembers its last look."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._last: Sight | None = None

    def look(self) -> Sight:
        """What is to be done now; reads only. Rings every class that sleeps beside pending work, and keeps the -wal short."""
        self._store.look_at_file()
        last = self._last
        if last is None or last.is_waiting or last.stamp is None or last.stamp != self._store.stamp():
            last = self._last = self._look()
            self._store.bells.ring_classes(last.sleepers)
            self._store.shorten_wal()
        return last

    def _look(self) -> Sight:
        """The stamp is read first: what is committed meanwhile changes it again."""
        stamp = self._store.settled_stamp()
        classes = self._store.bells.classes()
        return self._store.read(lambda tx: _sight(tx, stamp, classes))


def _sight(tx: Transaction, stamp: Stamp | None, classes: list[Want]) -> Sight:
    due, opening, expiry, is_waiting = tx.run(_SQL["what is next"]).fetchone()
    sleepers = tuple(want for want in classes if waiting.look(tx, want)[0]) if is_waiting else ()
    times = [at if isinstance(at, float | int) else inf for at in (due, opening, expiry)]  # a broken record has another
    return Sight(stamp, min(times[:2]), times[2], bool(is_waiting), sleepers)
