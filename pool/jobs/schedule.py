"""When a schedule entry fires: cron with a time zone, or a fixed distance. Pure; the keeper brings clock and store.

Cron follows Debian's cron, clock changes included (docs/jobs.md has the table of cases): an entry at a fixed time that
the clock skips fires right after the gap, one in the repeated hour fires once; entries with `*` in minute or hour go by real time.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING, Literal

from pool.errors import InvalidJob

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

CatchUp = Literal["run_once", "skip"]
PUNCTUAL_S = 30.0  # a tick seen this late was not missed: a keeper needs a moment to come back after a crash
COUNTED_MISSES = 1000
FOLD_S = 2 * 3600.0  # cronsim reads fixed times without their offset: start outside a repeated hour, then leave out
_NICKNAMES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}


@dataclass(frozen=True, slots=True)
class Every:
    """A fixed distance in seconds, counted from 1970, so that all pools agree on the ticks."""

    seconds: float

    def after(self, wall: float) -> Iterator[float]:
        """The ticks after this wall time, in order."""
        number = wall // self.seconds + 1
        while True:
            yield number * self.seconds
            number += 1

    def latest(self, wall: float) -> float | None:
        """The last tick at or before this wall time."""
        return wall // self.seconds * self.seconds


@dataclass(frozen=True, slots=True)
class Cron:
    """Five fields, read in a time zone."""

    expression: str
    zone: "ZoneInfo"

    def after(self, wall: float) -> Iterator[float]:
        """The ticks after this wall time, in order; ends when there are none in the next 50 years."""
        return (tick for tick in self._ticks(wall - FOLD_S) if tick > wall)

    def latest(self, wall: float) -> float | None:
        """The last tick at or before this wall time; None when there was none in 50 years."""
        return next((tick for tick in self._ticks(wall + FOLD_S, backwards=True) if tick <= wall), None)

    def _ticks(self, start: float, *, backwards: bool = False) -> Iterator[float]:
        from cronsim import CronSim

        moments = CronSim(self.expression, datetime.fromtimestamp(start, self.zone), reverse=backwards)
        return (moment.timestamp() for moment in moments)


Timing = Cron | Every


@dataclass(frozen=True, slots=True)
class Firing:
    """A tick that is due. `runs`: its job is enqueued; else the tick is only recorded. `missed`: earlier ones left out."""

    tick: float
    runs: bool
    missed: int


def timing_from(*, cron: str = "", every: float = 0.0, timezone: str = "UTC") -> Timing:
    """The timing an entry declares; InvalidJob says what is wrong with it, an expression that never fires included."""
    if bool(cron) == bool(every):
        raise InvalidJob("give cron or every, one of the two")
    if every:
        if every < 1:
            raise InvalidJob(f"every = {every:g} s is too often: the shortest distance is 1 s")
        return Every(every)
    timing = Cron(_five_fields(cron), _zone(timezone))
    _refuse_silent(timing, cron)
    return timing


def next_tick(timing: Timing, after: float) -> float | None:
    """The first tick after a wall time; None when there is none in the next 50 years."""
    return next(timing.after(after), None)


def due(timing: Timing, *, last: float, now: float, catch_up: CatchUp = "run_once") -> Firing | None:
    """What to do about the ticks in (last, now]: nothing, or fire the newest of them, once, for all.

    With `skip`, a newest tick that is more than 30 s old was missed too and is only recorded.
    """
    newest = timing.latest(now)
    if newest is None or newest <= last:
        return None
    passed = count_ticks(timing, last, now)
    runs = catch_up == "run_once" or now - newest <= PUNCTUAL_S
    return Firing(newest, runs, passed - 1 if runs else passed)


def count_ticks(timing: Timing, after: float, until: float) -> int:
    """How many ticks lie in (after, until]; counts to 1,000 and no further."""
    count = 0
    for tick in islice(timing.after(after), COUNTED_MISSES):
        if tick > until:
            break
        count += 1
    return count


def _five_fields(cron: str) -> str:
    expression = _NICKNAMES.get(cron.strip().lower(), cron.strip())
    if len(expression.split()) != 5:
        raise InvalidJob(
            f'cron {cron!r} is not five fields (minute, hour, day of month, month, day of week), such as "30 3 * * 1-5"'
        )
    return expression


def _zone(name: str) -> "ZoneInfo":
    from zoneinfo import ZoneInfo

    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise InvalidJob(f"time zone {name!r} is not known; use a name such as Europe/Berlin or UTC") from None


def _refuse_silent(timing: Cron, written: str) -> None:
    from cronsim import CronSimError

    try:
        first = next_tick(timing, datetime(2000, 1, 1, tzinfo=UTC).timestamp())
    except CronSimError as error:
        if "day-of-month" not in str(error) or not _is_readable_in_any_month(timing.expression):
            raise InvalidJob(f"cron {written!r} cannot be read: {str(error).lower()}") from None
        first = None
    if first is None:
        raise InvalidJob(f"cron {written!r} never fires: there is no such date")


def _is_readable_in_any_month(expression: str) -> bool:
    from cronsim import CronSim, CronSimError

    minute, hour, day, _, weekday = expression.split()
    try:
        CronSim(f"{minute} {hour} {day} * {weekday}", datetime(2000, 1, 1))
    except CronSimError:
        return False
    return True
