"""Steps of the keeper: beats, lost pools, due and expired jobs, ticks, retention."""

from collections.abc import Iterable

from pool.backends.contract import Beat, BeatAnswer, Departure, Held, Promotion, Recovered
from pool.backends.sqlite import batches, departures, intake, lanes, limits, rows, work
from pool.backends.sqlite.lanes import LaneRecord
from pool.backends.sqlite.leases import Holder, PoolRow, Watcher, as_holder, as_pool_row
from pool.backends.sqlite.marks import refuse_if_moving
from pool.backends.sqlite.statements import statements
from pool.backends.sqlite.transaction import CANCELLED, COMPLETED, FAILED, PENDING, RUNNING, Row, Transaction
from pool.identity import LaneId, PoolId, WorkerId
from pool.jobs.job import Cause, NewJob, Receipt
from pool.jobs.lifecycle import Reason

_SQL = statements("upkeep.sql")
_KEPT_HOURS = 48

# ---------------------------------------------------------------- beats


def beat(tx: Transaction, said: Beat) -> BeatAnswer:
    """Renew the pool's lease and compare what it says it holds with what the store says."""
    pool = lanes.pool_row(tx, said.pool)
    mark, boottime = said.supervisor, tx.host.boottime()
    renewed = (boottime, mark.boot_id, said.lease_seconds, mark.pid, mark.start_ticks, mark.pid_namespace)
    tx.run(_SQL["beat"], (*renewed, said.facts, pool))
    stored = {_held_key(said.pool, row): row for row in tx.all(_SQL["lanes of pool"], (pool,))}
    lost, cancelled = [], []
    for held in said.held:
        row = stored.pop(held, None)
        if row is None and not _adopt(tx, held):
            lost.append(held)
        elif row is not None and row[7] & rows.FLAG_CANCEL:
            cancelled.append(held)
    oldest_sure = boottime - said.lease_seconds / 3
    unknown = tuple(held for held, row in stored.items() if (row[8] or 0.0) <= oldest_sure)
    return BeatAnswer(tuple(lost), tuple(cancelled), unknown)


def _held_key(pool: PoolId, row: Row) -> Held:
    _, slot, generation, lane, _, claim, raw_id = row[:7]
    return Held(LaneId(WorkerId(pool, slot, generation), lane), rows.id_for_people(raw_id), claim)


def _adopt(tx: Transaction, held: Held) -> bool:
    """A job the store shows pending is really in this lane's hands, and nobody had it since: it stays there."""
    if not rows.is_uuid(held.job_id):
        return False
    job: Row | None = tx.run(_SQL["adoptable"], (rows.id_bytes(held.job_id),)).fetchone()
    if job is None:
        return False
    rank, queue, limited, claims, last_lane = job
    record = lanes.find_or_add(tx, held.lane, leased=True)
    if record.held is not None or record.barred or not _was_its_own(record, claims, last_lane, held):
        return False
    now = tx.now
    tx.run(_SQL["adopt lane"], (rank, held.claim, tx.host.boottime(), record.id))
    tx.run(_SQL["adopt job"], (record.id, held.claim, now, rank))
    tx.moved(queue, PENDING, RUNNING)
    if limited is not None:
        tx.freed.add(limited)
    return True


def _was_its_own(record: LaneRecord, claims: int, last_lane: int | None, held: Held) -> bool:
    """The store forgot this claim (an older copy was restored), or took the job from this very lane."""
    return claims < held.claim or (claims == held.claim == record.claim and last_lane == record.id)


# ---------------------------------------------------------------- lost pools


def run_out(tx: Transaction, watcher: Watcher) -> list[Holder]:
    """Look at all beats, and return the claims that may be taken now. Reads only."""
    watcher.look([as_pool_row(row[:11]) for row in tx.all(_SQL["all pools"])])
    holders = [as_holder(row) for row in tx.all(_SQL["holders"])]
    return [holder for holder in holders if watcher.has_run_out(holder)]


def recover_run_out(tx: Transaction, watcher: Watcher) -> list[Recovered]:
    """Take back every claim that has run out, judged again inside this transaction; forget pools that are gone."""
    taken: list[Recovered] = []
    for holder in (as_holder(row) for row in tx.all(_SQL["holders"])):
        if watcher.has_run_out(holder):
            taken += _take_holder(tx, holder, _CAUSE)
    tx.run(_SQL["forget leased lanes"])
    for pool in gone(tx, watcher):
        forget_pool(tx, pool.id)
    return taken


def gone(tx: Transaction, watcher: Watcher) -> Iterable[PoolRow]:
    """Pools that hold nothing and show no life."""
    found = tx.all(_SQL["all pools"])
    idle = [as_pool_row(row[:11]) for row in found if not row[12]]
    return [pool for pool in idle if watcher.is_gone(pool)]


_CAUSE = Cause(reason=Reason.WORKER_LOST, text="the pool or holder showed no life: its lease ran out")
_LEFT = Cause(reason=Reason.INTERRUPTED, text="the pool has ended")


def _take_holder(tx: Transaction, holder: Holder, cause: Cause) -> list[Recovered]:
    worker = WorkerId(holder.pool.pool, holder.slot, holder.generation)
    departure = Departure(worker=worker, cause=cause, started=None, bar=False)
    return departures.take_back(tx, departure, [(holder.lane_row, holder.lane, holder.rank, holder.claim)])


def leave(tx: Transaction, pool: PoolId) -> None:
    """What the pool still holds is returned as by our own shutdown; then it is forgotten."""
    number = lanes.pool_row(tx, pool)
    for row in tx.all(_SQL["holders"]):
        holder = as_holder(row)
        if holder.pool.id == number:
            _take_holder(tx, holder, _LEFT)
    forget_pool(tx, number)


def forget_pool(tx: Transaction, number: int) -> None:
    for statement in ("forget lanes", "forget bars", "forget pool"):
        tx.run(_SQL[statement], (number,))


# ---------------------------------------------------------------- time passes


def promote(tx: Transaction, limit: int) -> Promotion:
    """Expired jobs are cancelled, due ones become pending."""
    expire(tx, limit)
    moved = work.promote_due(tx, limit)
    limits.open_due(tx, limit)
    limits.let_go(tx)
    return Promotion(moved, next_event(tx), is_waiting=moved > 0)


def next_event(tx: Transaction) -> float | None:
    """When the next job is due, or the next used-up rate opens."""
    times = [at for at in (work.next_due(tx), limits.next_opening(tx)) if at is not None]
    return min(times, default=None)


def expire(tx: Transaction, limit: int) -> None:
    for rank, queue, status in tx.all(_SQL["expired"], (tx.now, limit)):
        intake.end_unstarted(tx, rank, queue, status, CANCELLED, Reason.EXPIRED)


def tick(tx: Transaction, schedule: str, version: str, due: float, job: NewJob | None) -> Receipt | None:
    """The tick and its job, or neither."""
    refuse_if_moving(tx)
    if tx.run(_SQL["tick"], (schedule, version, due)).fetchone() is None or job is None:
        return None
    receipt = intake.enqueue(tx, [job], None)[0]
    tx.run(_SQL["job of tick"], (rows.id_bytes(receipt.job_id), schedule))
    return receipt


def last_job(tx: Transaction, schedule: str) -> str | None:
    row = tx.run(_SQL["last job"], (schedule,)).fetchone()
    return rows.id_for_people(row[0]) if row and row[0] else None


def last_tick(tx: Transaction, schedule: str) -> float | None:
    row = tx.run(_SQL["last tick"], (schedule,)).fetchone()
    return row and row[0]  # type: ignore[no-any-return]


def forget(tx: Transaction, completed_s: float, failed_s: float, idempotency_s: float, limit: int) -> int:
    """Remove what has been kept long enough, the oldest of a queue first."""
    left = limit
    for status, kept_s in ((COMPLETED, completed_s), (CANCELLED, completed_s), (FAILED, failed_s)):
        left -= _forget_jobs(tx, status, tx.now - kept_s, left)
    left -= tx.run(_SQL["forget keys"], (tx.now - idempotency_s, left)).rowcount
    oldest = int(tx.now // 3600) - _KEPT_HOURS
    limits.forget(tx, limit)
    batches.forget(tx, tx.now - max(completed_s, failed_s), limit)
    tx.run(_SQL["fold hours"], (oldest,))
    tx.run(_SQL["drop folded hours"], (oldest,))
    return limit - left


def _forget_jobs(tx: Transaction, status: int, before: float, limit: int) -> int:
    found = tx.all(_SQL["old finished"], (status, before, limit)) if limit > 0 else []
    for rank, queue, _, owner, key in found:
        intake.remove(tx, rank, queue, status, owner, key)
    return len(found)
