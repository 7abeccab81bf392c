"""Who is gone, judged by watching counters stand still, never by dates (PROTOCOL 8). Pure: rows and a clock in, verdicts out.

A pool or holder is silent when its counter was the same in at least 5 good reads spread over a whole lease of our own
CLOCK_BOOTTIME, with no failed read and no gap longer than two periods between. A death is proven at once when
supervisor and worker were processes of our own boot and pid namespace and are no more.
"""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from pool.backends.redis.frames import UNREADABLE
from pool.backends.redis.work import read_mark
from pool.identity import LaneId, PoolId, ProcessMark, parse_lane

MIN_READS = 5
DEFAULT_LEASE_SECONDS = 60.0
PERIODS_PER_LEASE = 4.0  # the keeper calls about once a quarter of its lease
SHORTEST_PERIOD_SECONDS = 2.0
FORGET_AFTER_LEASES = 10  # a lost pool's bars stay this long for claims still on the wire


@dataclass(frozen=True, slots=True)
class Watched:
    """A pool as `watch.lua` tells it, with the lanes that hold something."""

    pool: PoolId
    beats: str
    lease_seconds: float
    mark: ProcessMark | None
    beaten_at: float
    lost: bool
    facts: bytes
    lanes: tuple["WatchedLane", ...]

    @classmethod
    def read(cls, row: list[Any]) -> "Watched":
        pool, beats, lease, mark, at, lost, facts, *lanes = row
        return cls(
            pool=parse_lane(f"{pool.decode()}/0.0").worker.pool,
            beats=beats.decode(),
            lease_seconds=float(lease) or DEFAULT_LEASE_SECONDS,
            mark=read_mark(mark.decode()),
            beaten_at=float(at),
            lost=bool(lost),
            facts=facts,
            lanes=tuple(WatchedLane.read(lane) for lane in lanes),
        )


def read_pools(rows: list[list[Any]]) -> list[Watched]:
    """Every pool that can be read: a broken record keeps nobody from seeing the others."""
    found: list[Watched] = []
    for row in rows:
        with contextlib.suppress(*UNREADABLE):
            found.append(Watched.read(row))
    return found


@dataclass(frozen=True, slots=True)
class WatchedLane:
    """A lane that holds something; `lease_seconds` 0 = its pool beats for it."""

    field: str
    lease_seconds: float
    renewals: str
    mark: ProcessMark | None

    @classmethod
    def read(cls, row: list[Any]) -> "WatchedLane":
        name, _, _, lease, renewals, mark = row
        return cls(name.decode(), float(lease), renewals.decode(), read_mark(mark.decode()))

    @property
    def worker(self) -> str:
        return self.field.partition("/")[0]


@dataclass(frozen=True, slots=True)
class Silence:
    """Somebody is gone: a pool, one worker of it (`worker`) or one holder (`lane`); `seen` is the counter that stood still."""

    pool: PoolId
    seen: str = ""
    worker: str = ""
    lane: str = ""
    is_forgotten: bool = False


@dataclass(slots=True)
class _Sight:
    """One counter under watch."""

    counter: str
    since: float
    last: float
    reads: int = 1

    def has_stood(self, seconds: float) -> bool:
        return self.reads >= MIN_READS and self.last - self.since >= seconds


@dataclass(slots=True)
class Watch:
    """What was seen between calls of `recover_expired`."""

    _sights: dict[str, _Sight] = field(default_factory=dict)

    def read_failed(self) -> None:
        """Nothing seen before a failed read counts."""
        self._sights.clear()

    def in_question(self, rows: list[Watched], now_boottime: float) -> list[PoolId]:
        """Pools that `judge` may find silent, and must know the lanes of: few, while a store may have a thousand pools."""
        return [row.pool for row in rows if _is_dead_here(row.mark) or self._stands(row, now_boottime)]

    def _stands(self, row: Watched, now: float) -> bool:
        known = self._sights.get(str(row.pool))
        return known is not None and known.counter == row.beats and now - known.since >= row.lease_seconds / 2

    def judge(self, rows: list[Watched], now_boottime: float) -> list[Silence]:
        """The silent ones among `rows`; forgets those that are no longer there."""
        present: set[str] = set()
        found = [silence for row in rows for silence in self._judge_pool(row, now_boottime, present)]
        self._sights = {name: sight for name, sight in self._sights.items() if name in present}
        return found

    def _judge_pool(self, row: Watched, now: float, present: set[str]) -> Iterator[Silence]:
        held = [lane for lane in row.lanes if not lane.lease_seconds]
        sight = self._look(str(row.pool), row.beats, row.lease_seconds, now, present)
        if sight.has_stood(row.lease_seconds):
            if held:
                yield Silence(row.pool, row.beats)
            elif not row.lanes and self._is_over(row, sight):
                yield Silence(row.pool, row.beats, is_forgotten=True)
        elif held and _is_dead_here(row.mark):
            yield from (Silence(row.pool, worker=worker) for worker in _dead_workers(held))
        for lane in row.lanes:
            if lane.lease_seconds:
                yield from self._judge_holder(row.pool, lane, now, present)

    def _judge_holder(self, pool: PoolId, lane: WatchedLane, now: float, present: set[str]) -> Iterator[Silence]:
        name = str(LaneId(parse_lane(f"{pool}/{lane.field}").worker, int(lane.field.partition("/")[2])))
        sight = self._look(f"holder {name}", lane.renewals, lane.lease_seconds, now, present)
        if sight.has_stood(lane.lease_seconds):
            yield Silence(pool, lane.renewals, lane=lane.field)

    def _look(self, name: str, counter: str, lease_seconds: float, now: float, present: set[str]) -> _Sight:
        """Note this reading; a moved counter or too long a gap starts the watch anew."""
        present.add(name)
        known = self._sights.get(name)
        longest_gap = 2 * max(lease_seconds / PERIODS_PER_LEASE, SHORTEST_PERIOD_SECONDS)
        if known is None or known.counter != counter or now - known.last > longest_gap:
            self._sights[name] = _Sight(counter, now, now)
        else:
            known.last, known.reads = now, known.reads + 1
        return self._sights[name]

    def _is_over(self, row: Watched, sight: _Sight) -> bool:
        """A pool that is proven dead or was taken over long ago needs no bars any more."""
        return _is_dead_here(row.mark) or sight.last - sight.since >= FORGET_AFTER_LEASES * row.lease_seconds


def _is_dead_here(mark: ProcessMark | None) -> bool:
    """Proven dead: a process of our own boot and pid namespace that is no more."""
    return mark is not None and mark.is_comparable() and not mark.is_alive()


def _dead_workers(lanes: list[WatchedLane]) -> list[str]:
    """Workers whose lanes were all last used by processes that are proven dead."""
    marks: dict[str, list[ProcessMark | None]] = {}
    for lane in lanes:
        marks.setdefault(lane.worker, []).append(lane.mark)
    return sorted(worker for worker, known in marks.items() if all(map(_is_dead_here, known)))
