"""Whose claims have run out, and whose only look so.

A claim whose process lives is never taken. A dead process's claim is taken at once when its supervisor is dead too or
the machine has booted since; while the supervisor lives, its own keeper has the better facts and gets a full lease.
Of a process that cannot be judged from here (another pid namespace) only the beat of its pool tells: it must be seen to
stand still for a whole lease of our own looking, because after a suspend or an outage every date looks expired.
"""

from dataclasses import dataclass, field
from enum import Enum, auto

from pool.backends.sqlite.transaction import Host, Row
from pool.identity import PoolId, ProcessMark

_READS_OF_A_LEASE = 5


@dataclass(frozen=True, slots=True)
class PoolRow:
    """A pool as stored: its last beat, and the process that keeps it."""

    id: int
    pool: PoolId
    beats: int
    beat_boot: float
    boot: str
    lease: float
    supervisor: ProcessMark | None

    def is_silent(self, host: Host) -> bool:
        """By its date, no beat for a whole lease (or since the machine booted)."""
        return self.boot != host.boot() or host.boottime() - self.beat_boot > self.lease


@dataclass(frozen=True, slots=True)
class Holder:
    """A lane that holds a job, as stored. `owner` None: leased over HTTP, or a process unknown."""

    lane_row: int
    slot: int
    generation: int
    lane: int
    rank: int
    claim: int
    expires_boot: float | None
    boot: str
    owner: ProcessMark | None
    pool: PoolRow


class Life(Enum):
    ALIVE = auto()
    DEAD = auto()
    UNKNOWN = auto()


def life_of(mark: ProcessMark | None, host: Host) -> Life:
    """Whether a process lives, as far as this process can tell. One of an earlier boot is dead."""
    if mark is None:
        return Life.UNKNOWN
    if mark.boot_id != host.boot():
        return Life.DEAD if mark.boot_id and host.boot() else Life.UNKNOWN
    if not mark.is_comparable():
        return Life.UNKNOWN
    return Life.ALIVE if mark.is_alive() else Life.DEAD


@dataclass(slots=True)
class Watch:
    """The beat of one pool as we have seen it stand still."""

    beats: int
    since: float
    last: float
    reads: int = 1


@dataclass(slots=True)
class Watcher:
    """What one keeper saw between its calls. `look` takes note; `is_lost` judges."""

    host: Host
    seen: dict[int, Watch] = field(default_factory=dict)

    def look(self, pools: list[PoolRow]) -> None:
        now = self.host.boottime()
        self.seen = {pool.id: self._grown(pool, now) for pool in pools}

    def _grown(self, pool: PoolRow, now: float) -> Watch:
        watch = self.seen.get(pool.id)
        longest_gap = max(2 * pool.lease / _READS_OF_A_LEASE, 2.5)
        if watch is None or watch.beats != pool.beats or now - watch.last > longest_gap:
            return Watch(pool.beats, now, now)
        return Watch(watch.beats, watch.since, now, watch.reads + 1)

    def is_lost(self, pool: PoolRow) -> bool:
        """Silent by its date, and seen to stand still for a whole lease."""
        watch = self.seen.get(pool.id)
        if watch is None or not pool.is_silent(self.host):
            return False
        return watch.reads >= _READS_OF_A_LEASE and watch.last - watch.since >= pool.lease

    def has_run_out(self, holder: Holder) -> bool:
        """Whether this claim may be taken now."""
        host = self.host
        if holder.boot != host.boot() and holder.boot and host.boot():
            return True
        if holder.expires_boot is not None:
            return host.boottime() > holder.expires_boot
        owner = life_of(holder.owner, host)
        if owner is Life.ALIVE:
            return False
        if owner is Life.DEAD:
            return life_of(holder.pool.supervisor, host) is Life.DEAD or holder.pool.is_silent(host)
        return self.is_lost(holder.pool)

    def is_gone(self, pool: PoolRow) -> bool:
        """Whether a pool that holds nothing may be forgotten."""
        life = life_of(pool.supervisor, self.host)
        if life is Life.ALIVE:
            return False
        return life is Life.DEAD or self.is_lost(pool)

    def seems_lost(self, pool: PoolRow) -> bool:
        """For people: its date says so and its supervisor is not known to live."""
        return pool.is_silent(self.host) and life_of(pool.supervisor, self.host) is not Life.ALIVE


def as_pool_row(row: Row) -> PoolRow:
    """From id, name, host, incarnation, beats, beat_boot, boot, lease, pid, ticks, namespace."""
    number, name, host, incarnation, beats, beat_boot, boot, lease, pid, ticks, namespace = row
    return PoolRow(
        number, PoolId(name, host, incarnation), beats, beat_boot, boot, lease, _mark(pid, ticks, boot, namespace)
    )


def as_holder(row: Row) -> Holder:
    """From a row of `holders`."""
    lane_row, pool_id, slot, generation, lane, rank, claim, _, expires_boot, boot, pid, ticks, namespace = row[:13]
    owner = _mark(pid, ticks, boot, namespace)
    pool = as_pool_row((pool_id, *row[13:]))
    return Holder(lane_row, slot, generation, lane, rank, claim, expires_boot, boot, owner, pool)


def _mark(pid: int | None, ticks: int | None, boot: str, namespace: int | None) -> ProcessMark | None:
    return None if pid is None else ProcessMark(pid, ticks or 0, boot, namespace or 0)
