"""Why a job is where it is, in sentences. Pure: decides from the job, its queue and the pools that beat."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pool.backends.contract import LimitState, PoolState, QueueState
from pool.clock import as_rfc3339
from pool.jobs.documents import cause_text
from pool.jobs.job import Job
from pool.jobs.lifecycle import Status
from pool.jobs.published import PublishedTypes
from pool.spoken import duration

STALE_BEAT_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Around:
    """What is around a job: its queue, the living pools, its limit, how many stand before it, and the store's time."""

    queue: QueueState
    live: Sequence[PoolState] = ()
    limit: LimitState | None = None
    ahead: int | None = None
    is_ageing: bool = False
    now: float


def reasons(
    job: Job,
    queues: Sequence[QueueState],
    pools: Sequence[PoolState],
    *,
    now: float,
    limits: Sequence[LimitState] = (),
    ahead: int | None = None,
    is_ageing: bool = False,
) -> list[str]:
    """What holds the job where it is, and what to type about it. `ahead`: how many pending jobs stand before it."""
    around = Around(
        queue=next((state for state in queues if state.name == job.queue), QueueState(name=job.queue)),
        live=[pool for pool in pools if not pool.lost and pool.age_s < STALE_BEAT_S],
        limit=next((state for state in limits if state.key == job.limit_key), None),
        ahead=ahead,
        is_ageing=is_ageing,
        now=now,
    )
    explain = {
        Status.SCHEDULED: lambda: _scheduled(job, around),
        Status.PENDING: lambda: _pending(job, around),
        Status.RUNNING: lambda: _running(job, now),
        Status.COMPLETED: lambda: _completed(job),
        Status.FAILED: lambda: _failed(job),
        Status.CANCELLED: lambda: _cancelled(job),
    }
    return list(explain[job.status]())


def serves(pool: PoolState, queue: str) -> bool:
    """Whether a group of this pool takes jobs from the queue."""
    return any(_takes_from(group, queue) for group in _groups(pool))


def queues_named_by(pool: PoolState) -> set[str]:
    """The queues that groups of this pool name one by one; `*` is no name."""
    return {queue for group in _groups(pool) for queue in group.get("queues", ())} - {"*"}


def _groups(pool: PoolState) -> list[dict[str, Any]]:
    groups = pool.facts.get("groups")
    return [group for group in groups.values() if isinstance(group, dict)] if isinstance(groups, dict) else []


def _takes_from(group: dict[str, Any], queue: str) -> bool:
    return queue in group.get("queues", ()) or "*" in group.get("queues", ())


def _takes(group: dict[str, Any], job: Job) -> bool:
    low, high = group.get("min_priority", 0), group.get("max_priority", 100)
    return _takes_from(group, job.queue) and low <= job.priority <= high


def _scheduled(job: Job, around: Around) -> Iterator[str]:
    wait = job.run_at - around.now
    if job.retry_count:
        yield f"It failed {job.retry_count} of {job.max_retries + 1} times ({job.error or 'no text'}) and waits for its next attempt."
    if wait > 0:
        yield f"It is due in {duration(wait)}, at {as_rfc3339(job.run_at)}."
    else:
        yield f"It has been due for {duration(-wait)} and nobody started it: see whether workers run with `jobpool status`."
    if around.queue.paused:
        yield f"Its queue {job.queue} is paused: jobpool resume {job.queue}"
    yield from _misfit(job, around)
    yield from _expiry(job, around.now)


def _pending(job: Job, around: Around) -> Iterator[str]:
    queue, live = around.queue, around.live
    if queue.paused:
        yield f"Its queue {job.queue} is paused: jobpool resume {job.queue}"
    if not live:
        yield "No pool is running on this store: start one with `jobpool start --app YOUR_MODULE`."
    elif not any(serves(pool, job.queue) for pool in live):
        yield f"No running pool serves its queue {job.queue}: add it to [workers] queues or to a [[groups]] entry."
    elif not any(_takes(group, job) for pool in live for group in _groups(pool)):
        yield f"No group of workers that serves {job.queue} takes priority {job.priority}: see its min_priority and max_priority."
    elif around.limit is not None and not around.limit.has_room:
        yield _limited(around.limit, around.now)
    elif not queue.paused:
        yield _in_line(job, around)
    yield from _misfit(job, around)
    yield from _expiry(job, around.now)


def _in_line(job: Job, around: Around) -> str:
    if around.ahead is None:
        pending = around.queue.pending
        ahead = f"{pending:,} jobs wait in {job.queue}" if pending > 1 else "it is the only one waiting"
        return f"It waits for a free worker; {ahead}."
    if not around.ahead:
        return f"It waits for a free worker; it is the next of {job.queue}."
    how = "that stand before it" if around.is_ageing else f"of higher rank (above priority {job.priority}, or older)"
    return f"It waits for a free worker behind {around.ahead:,} jobs {how} in {job.queue}."


def _limited(limit: LimitState, now: float) -> str:
    if limit.max_running and limit.running >= limit.max_running:
        used = f"{limit.running:,} of {limit.max_running:,} run now"
    else:
        wait = duration(max(0.0, (limit.opens_at or now) - now))
        used = f"{limit.count:,} per {duration(limit.per_s)}, the next may start in {wait}"
    return f"Its limit {limit.key!r} is used up: {used}; {limit.waiting:,} jobs wait for it."


def _misfit(job: Job, around: Around) -> Iterator[str]:
    types = [known for pool in around.live if isinstance(known := pool.facts.get("types"), dict)]
    if types and PublishedTypes({"types": known} for known in types).get(job.type) is None:
        yield f"No running pool knows its type {job.type}: deploy the code that has it, or add its module to [app] modules."
    if job.misfits:
        yield f"It was handed back {job.misfits} times by workers that do not know its type or payload: deploy their code."


def _expiry(job: Job, now: float) -> Iterator[str]:
    if job.expires_at is not None:
        yield f"It expires if it has not started in {duration(max(0.0, job.expires_at - now))}."


def _running(job: Job, now: float) -> Iterator[str]:
    since = job.started_at or job.claimed_at
    lasting = f" for {duration(now - since)}" if since else ""
    held = f", held since {as_rfc3339(job.claimed_at)}" if job.claimed_at else ""
    yield f"It runs{lasting} on {job.worker_id} (attempt {job.retry_count + 1}{held})."
    if job.progress is not None:
        yield f"It says it is {job.progress:.0%} done. {job.progress_note or ''}".strip()
    if job.cancel_requested:
        yield f"It was asked to stop and has not noticed yet; end it with: jobpool jobs cancel {job.id} --force"


def _completed(job: Job) -> Iterator[str]:
    yield f"It completed at {as_rfc3339(job.finished_at)} after {job.retry_count + 1} attempts."


def _failed(job: Job) -> Iterator[str]:
    last = cause_text(job.attempts[-1].cause) if job.attempts else ""
    yield f"It was given up at {as_rfc3339(job.finished_at)}: {job.reason or 'unknown reason'}, {job.error or last or 'no text'}."
    if job.kill_count:
        yield f"It killed {job.kill_count} workers."
    yield f"Run it again with: jobpool dead retry {job.id}"


def _cancelled(job: Job) -> Iterator[str]:
    words = {"expired": "It was not started before it expired", "discarded": "A person discarded it"}
    yield f"{words.get(str(job.reason or ''), 'It was cancelled')}, at {as_rfc3339(job.finished_at)}."
