"""A lane's own record: what it was told last, what it holds, whether its worker was declared dead."""

from collections.abc import Sequence
from dataclasses import dataclass

from pool.backends.sqlite.statements import statements
from pool.backends.sqlite.transaction import Row, Transaction
from pool.identity import LaneId, PoolId, ProcessMark
from pool.jobs.job import Claim

_SQL = statements("work.sql")
_UNBEATEN_LEASE_S = 60.0  # until the pool's first beat says better
_MANY_LANES = 10_000


class StaleLane(Exception):
    """What this process remembered of a lane is no longer so: the step must be done again from what is stored."""


@dataclass(slots=True)
class LaneRecord:
    """A row of `lanes`, changed in memory and written once at the end of the step."""

    lane: LaneId
    id: int
    request: int
    settled: int | None
    held: int | None  # rank of the job
    claim: int
    barred: int
    lease: float | None = None  # seconds; only of a holder that no pool beats for
    stored: tuple[int, int | None, int] = (0, None, 0)  # request, held and claim as they stand in the table
    first_job: str = ""  # the held job, if this process handed it out at its first attempt and nothing follows it
    queue: int = 0  # of that job
    max_retries: int = 0
    claimed_boottime: float | None = None
    _worker: str = ""

    def __post_init__(self) -> None:
        self.stored = (self.request, self.held, self.claim)

    @property
    def worker(self) -> str:
        """The lane's text, made once."""
        if not self._worker:
            self._worker = str(self.lane)
        return self._worker

    def hold(self, rank: int, claim: Claim, row: Row) -> None:
        """The job of this row is the lane's."""
        self.held, self.claim, self.claimed_boottime = rank, claim.claim, claim.claimed_boottime
        is_first = claim.retry_count == 0 and row[17] is None and row[22] and row[23] is None
        self.first_job = claim.job_id if is_first else ""
        self.queue, self.max_retries = row[3], claim.max_retries

    def let_go(self) -> None:
        """Its word was taken."""
        self.held, self.claim, self.first_job = None, 0, ""

    def save(self, tx: Transaction) -> None:
        """StaleLane when the row is not as it was remembered: somebody recovered or barred the lane meanwhile."""
        if tx.run(_SQL["lane answered"], self.as_answered()).rowcount == 0:
            raise StaleLane
        self.stored = (self.request, self.held, self.claim)

    def as_answered(self) -> Row:
        return (
            self.request,
            self.settled,
            self.held,
            self.claim,
            self.claimed_boottime,
            self.id,
            *self.stored,
            self.barred,
        )


def save_all(tx: Transaction, records: Sequence[LaneRecord]) -> None:
    """`save`, all by one statement."""
    saved = tx.run_many(_SQL["lane answered"], [record.as_answered() for record in records])
    if saved != len(records):
        raise StaleLane
    for record in records:
        record.stored = (record.request, record.held, record.claim)


def drop_if_leased_and_idle(tx: Transaction, lane: LaneId, record: LaneRecord) -> None:
    """A leased lane is known only while it holds a job."""
    if record.lease is not None and record.held is None:
        tx.run(_SQL["forget lane"], (record.id,))
        tx.host.lanes.pop(id(lane), None)


def remembered(tx: Transaction, lane: LaneId, request: int) -> LaneRecord | None:
    """The record as this process saved it last, for the next request in turn; `save` finds out if it is stale.

    Found by the identity of the caller's object: to hash a lane costs more than all else here."""
    known: LaneRecord | None = tx.host.lanes.get(id(lane))
    if known is None or known.lane is not lane or known.barred or request != known.request + 1:
        return None
    return known


def remembered_follower(tx: Transaction, lane: LaneId, request: int) -> LaneRecord | None:
    """The same for a lane whose numbers are its leader's: it sits out many calls."""
    known: LaneRecord | None = tx.host.lanes.get(id(lane))
    if known is None or known.lane is not lane or known.barred or request <= known.request:
        return None
    return known


def find(tx: Transaction, lane: LaneId) -> LaneRecord | None:
    """The lane's record as stored; None when it never called (or its pool was forgotten)."""
    row = tx.run(_SQL["lane by name"], name_parts(lane)).fetchone()
    return None if row is None else _remember(tx, LaneRecord(lane, *row))


def name_parts(lane: LaneId) -> tuple[str, str, str, int, int, int]:
    worker = lane.worker
    pool = worker.pool
    return pool.name, pool.host, pool.incarnation, worker.slot, worker.generation, lane.lane


def _remember(tx: Transaction, record: LaneRecord) -> LaneRecord:
    if len(tx.host.lanes) > _MANY_LANES:
        tx.host.lanes.clear()
    tx.host.lanes[id(record.lane)] = record
    return record


def find_or_add(tx: Transaction, lane: LaneId, *, leased: bool) -> LaneRecord:
    """The lane's record, made on its first call. The caller's process owns it, unless it is leased (HTTP)."""
    found = find(tx, lane)
    if found is not None:
        return found
    pool, worker = pool_row(tx, lane.worker.pool, None if leased else tx.host.parent_mark()), lane.worker
    barred = 1 if tx.run(_SQL["is barred"], (pool, worker.slot, worker.generation)).fetchone() else 0
    mark = None if leased else tx.host.mark()
    owner = (mark.pid, mark.start_ticks, mark.pid_namespace) if mark else (None, None, None)
    boot = mark.boot_id if mark else tx.host.boot()
    row = tx.run(_SQL["add lane"], (pool, worker.slot, worker.generation, lane.lane, barred, boot, *owner)).fetchone()
    return _remember(tx, LaneRecord(lane, row[0], 0, None, None, 0, barred))


def pool_row(tx: Transaction, pool: PoolId, supervisor: ProcessMark | None = None) -> int:
    """The number of a pool's row, made when nothing is known of it yet: `supervisor` holds until the first beat."""
    row = tx.run(_SQL["find pool"], (pool.name, pool.host, pool.incarnation)).fetchone()
    if row is None:
        known = (supervisor.pid, supervisor.start_ticks, supervisor.pid_namespace) if supervisor else (None,) * 3
        fresh = (pool.name, pool.host, pool.incarnation, tx.host.boottime(), tx.host.boot(), _UNBEATEN_LEASE_S)
        row = tx.run(_SQL["add pool"], (*fresh, *known)).fetchone()
    return row[0]  # type: ignore[no-any-return]
