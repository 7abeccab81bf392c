"""Reading steps: jobs, queues, numbers, pools."""

from functools import lru_cache
from typing import Any

from pool.backends.contract import JobFilter, Page, PoolState, QueueState
from pool.backends.sqlite import batches, rows, showing, work
from pool.backends.sqlite.intake import find_id
from pool.backends.sqlite.leases import Watcher, as_pool_row
from pool.backends.sqlite.statements import statements
from pool.backends.sqlite.transaction import PENDING, RUNNING, Row, Transaction
from pool.clock import as_rfc3339
from pool.errors import JobNotFound
from pool.identity import LaneId, PoolId, WorkerId
from pool.jobs.job import LOCAL_OWNER, Job
from pool.jobs.lifecycle import Status

_SQL = statements("inspection.sql")
_ONE = _SQL["one job"].format(columns=showing.JOB_COLUMNS)
_HOURS = 24
_OVERDUE_S = 1.0
_FEW_JOBS = 20_000


# ---------------------------------------------------------------- jobs


def job(tx: Transaction, job_id: str) -> Job:
    row: Row | None = tx.run(_ONE, (find_id(job_id),)).fetchone()
    if row is None:
        raise JobNotFound(job_id)
    return showing.as_job(tx, row[:-1], holder_of(tx, row), row[-1])


def holder_of(tx: Transaction, row: Row) -> str | None:
    """The text of the lane that holds this job now."""
    status, lane = row[2], row[33]
    if status != RUNNING or lane is None:
        return None
    found = tx.run(_SQL["holder"], (lane,)).fetchone()
    if found is None:
        return None
    name, host, incarnation, slot, generation, number = found
    return str(LaneId(WorkerId(PoolId(name, host, incarnation), slot, generation), number))


def jobs(tx: Transaction, which: JobFilter, after: str | None, limit: int) -> Page:
    """Newest first. One more row than asked for tells whether there is a next page."""
    conditions, values = _conditions(tx, which)
    if after is not None:
        conditions.append("j.id < ?")
        values.append(rows.id_bytes(after) if rows.is_uuid(after) else b"")
    is_sorted = not _is_in_order(which) and _is_rare(tx, which)
    order = "+j.id" if is_sorted else "j.id"
    sql = _SQL["some jobs"].format(columns=showing.JOB_COLUMNS, where=" AND ".join(conditions) or "1", order=order)
    found = tx.all(sql, (*values, limit + 1))
    page = tuple(showing.as_job(tx, row, holder_of(tx, row)) for row in found[:limit])
    return Page(page, page[-1].id if len(found) > limit and page else None)


def last_failed(tx: Transaction, limit: int) -> list[Job]:
    found = tx.all(_SQL["last failed"].format(columns=showing.JOB_COLUMNS), (limit,))
    return [showing.as_job(tx, row, None) for row in found]


def _conditions(tx: Transaction, which: JobFilter) -> tuple[list[str], list[Any]]:
    """SQL conditions of fixed text; every value a caller gave is bound."""
    asked: list[tuple[str, Any]] = []
    if which.status is not None:
        asked.append((_status_condition(tx, which, which.status), rows.STATUS_NUMBER[which.status]))
    if which.type is not None:
        asked.append(("j.type = ?", tx.known_name_id(which.type)))
    if which.queue is not None:
        asked.append(("j.queue = ?", tx.known_queue_id(which.queue)))
    if which.owner is not None:
        asked.append(_owner_condition(tx, which, which.owner))
    if which.reason is not None:
        asked.append(("j.reason = ?", str(which.reason)))
    if which.finished_before is not None:
        asked.append(("j.finished_at < ?", which.finished_before))
    if which.batch_id is not None:
        asked.append(("j.batch = ?", batches.find(tx, which.batch_id)))
    conditions, values = [text for text, _ in asked], [value for _, value in asked]
    if which.text is not None:
        conditions.append(_TEXT)
        values += [which.text.lower()] * 3 + [which.text.lower().replace("-", "")]
    return conditions, values


_TEXT = """(instr(lower(j.payload), ?) OR instr(lower(j.error), ?)
  OR instr(lower((SELECT name FROM names WHERE names.id = j.type)), ?) OR instr(lower(hex(j.id)), ?))"""


_PENDING = """SELECT rank FROM jobs WHERE status = 1{in_queue}
  UNION ALL SELECT rank FROM jobs WHERE status = -1 AND limited IS NOT NULL{in_queue}"""


def _status_condition(tx: Transaction, which: JobFilter, status: Status) -> str:
    """Few jobs in a state: by that state's own index, then sorted. Many: along the ids, until the page is full.

    SQLite uses a partial index only where the statement repeats the index's own condition."""
    if status is Status.RUNNING:
        return "j.status = ? AND j.rank IN (SELECT held FROM lanes WHERE held IS NOT NULL)"
    if status is Status.PENDING:
        return (
            f"abs(j.status) = ? AND j.rank IN ({_pending(tx, which)})" if _is_rare(tx, which) else "abs(j.status) = ?"
        )
    if _is_in_order(which) or _is_rare(tx, which):
        return f"j.status = ? AND {_INDEXED.get(status, 'j.status >= 3')}"
    return "+j.status = ?"


_INDEXED = {Status.SCHEDULED: "j.watched = 0", Status.FAILED: "j.watched = 4"}


def _pending(tx: Transaction, which: JobFilter) -> str:
    queue = _wanted_queue(tx, which)
    return _PENDING.format(in_queue="" if queue is None else f" AND queue = {queue:d}")


def _is_in_order(which: JobFilter) -> bool:
    """Whether an index has the wanted jobs by id. Dead letters have such indexes, which cost the others nothing."""
    return which.status is Status.FAILED or (which.status is Status.SCHEDULED and which.queue is not None)


def ahead(tx: Transaction, job_id: str) -> int | None:
    """How many jobs of its queue stand before this pending one; None when it is not pending."""
    row = tx.run(_SQL["place"], (find_id(job_id),)).fetchone()
    if row is None:
        raise JobNotFound(job_id)
    rank, queue, priority, status, grain = row
    if abs(status) != PENDING:
        return None
    if grain:
        name, asked = "ahead by age", (queue, grain, rank - priority * grain, rank)
    else:
        name, asked = "ahead", (queue, priority, priority, rank)
    return tx.run(_SQL[name], asked).fetchone()[0]  # type: ignore[no-any-return]


def _is_rare(tx: Transaction, which: JobFilter) -> bool:
    """Whether few jobs are in the wanted state, in the wanted queue if one is."""
    if which.status is None:
        return False
    sql = _SQL["in state"].format(status=which.status.value)
    queue = _wanted_queue(tx, which)
    return tx.run(sql, (queue, queue)).fetchone()[0] < _FEW_JOBS  # type: ignore[no-any-return]


def _wanted_queue(tx: Transaction, which: JobFilter) -> int | None:
    """The number of the queue; None for any, 0 for one that does not exist."""
    return None if which.queue is None else tx.known_queue_id(which.queue) or 0


def _owner_condition(tx: Transaction, which: JobFilter, owner: str) -> tuple[str, Any]:
    """Few jobs in the wanted state are looked through before the owner's many: the + keeps SQLite from those."""
    if owner == LOCAL_OWNER:
        return "j.owner IS ?", None
    is_beside = which.status is not Status.FAILED and _is_rare(tx, which)
    return "+j.owner = ?" if is_beside else "j.owner = ?", tx.known_name_id(owner)


# ---------------------------------------------------------------- queues and numbers


def queues(tx: Transaction) -> list[QueueState]:
    oldest: dict[int, float] = dict(tx.all(_SQL["heads"]))
    for queue, run_at in tx.all(_SQL["oldest promoted"]):
        oldest[queue] = min(run_at, oldest.get(queue) or run_at)
    overdue = _overdue(tx)
    return [_as_queue(tx, row, oldest.get(row[0]), overdue.get(row[0], 0)) for row in tx.all(_SQL["queues"])]


def _as_queue(tx: Transaction, row: Row, since: float | None, overdue: int) -> QueueState:
    _, name, pending, scheduled, running, completed, failed, paused, max_pending = row
    return QueueState(
        name=name,
        pending=pending,
        scheduled=scheduled,
        running=running,
        completed=completed,
        failed=failed,
        oldest_pending_s=None if since is None else max(tx.now - since, 0.0),
        overdue=overdue,
        paused=bool(paused),
        max_pending=max_pending,
    )


def _overdue(tx: Transaction) -> dict[int, int]:
    counts: dict[int, int] = {}
    for queue, count in tx.all(_SQL["overdue"], (tx.now - _OVERDUE_S,) * 2):
        counts[queue] = counts.get(queue, 0) + count
    return counts


def numbers(tx: Transaction) -> dict[str, Any]:
    """The fields of `Statistics` that are in the tables."""
    enqueued, completed, retried, failed, cancelled, deaths = map(int, tx.run(_SQL["totals"]).fetchone())
    return {
        "enqueued": enqueued,
        "completed": completed,
        "retried": retried,
        "failed": failed,
        "cancelled": cancelled,
        "worker_deaths": deaths,
        "delayed": int(tx.run(_SQL["delayed"]).fetchone()[0]),
        "overdue": sum(_overdue(tx).values()),
        "next_due": work.next_due(tx),
        "hours": _hours(tx),
    }


@lru_cache(maxsize=2 * _HOURS)
def _label(hour: int) -> str | None:
    return as_rfc3339(hour * 3600.0)


def _hours(tx: Transaction) -> tuple[dict[str, Any], ...]:
    """The last 24 UTC hours, oldest first, with zeros."""
    this = int(tx.now // 3600)
    known = {row[0]: row[1:] for row in tx.all(_SQL["hours"], (this - _HOURS,) * 2)}
    hours = range(this - _HOURS + 1, this + 1)
    names = ("enqueued", "completed", "retried", "failed")
    return tuple({"hour": _label(hour), **dict(zip(names, known.get(hour, (0,) * 4), strict=True))} for hour in hours)


# ---------------------------------------------------------------- pools


def pools(tx: Transaction, watcher: Watcher) -> list[PoolState]:
    return [_as_pool(tx, watcher, row) for row in tx.all(_SQL["pools"])]


def _as_pool(tx: Transaction, watcher: Watcher, row: Row) -> PoolState:
    pool = as_pool_row(row[:11])
    host = tx.host
    age_s = host.boottime() - pool.beat_boot if pool.boot == host.boot() else host.boottime()
    return PoolState(
        pool=pool.pool, age_s=max(age_s, 0.0), lost=watcher.seems_lost(pool), facts=showing.read_facts(row[11])
    )
