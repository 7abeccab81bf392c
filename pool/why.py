"""Why a job is where it is, in sentences. Pure: decides from the job, its queue and the pools that beat."""

from collections.abc import Iterator, Sequence

from pool.backends.contract import PoolState, QueueState
from pool.clock import as_rfc3339
from pool.jobs.documents import cause_text
from pool.jobs.job import Job
from pool.jobs.lifecycle import Status
from pool.spoken import duration

STALE_BEAT_S = 60.0


def reasons(job: Job, queues: Sequence[QueueState], pools: Sequence[PoolState], *, now: float) -> list[str]:
    """What holds the job where it is, and what to type about it."""
    queue = next((state for state in queues if state.name == job.queue), QueueState(name=job.queue))
    live = [pool for pool in pools if not pool.lost and pool.age_s < STALE_BEAT_S]
    explain = {
        Status.SCHEDULED: lambda: _scheduled(job, now),
        Status.PENDING: lambda: _pending(job, queue, live),
        Status.RUNNING: lambda: _running(job, now),
        Status.COMPLETED: lambda: _completed(job),
        Status.FAILED: lambda: _failed(job),
        Status.CANCELLED: lambda: _cancelled(job),
    }
    return list(explain[job.status]())


def serves(pool: PoolState, queue: str) -> bool:
    """Whether a group of this pool takes jobs from the queue."""
    groups = pool.facts.get("groups", {}).values()
    return any(queue in group.get("queues", ()) or "*" in group.get("queues", ()) for group in groups)


def _scheduled(job: Job, now: float) -> Iterator[str]:
    wait = job.run_at - now
    if job.retry_count:
        yield f"It failed {job.retry_count} of {job.max_retries + 1} times ({job.error or 'no text'}) and waits for its next attempt."
    if wait > 0:
        yield f"It is due in {duration(wait)}, at {as_rfc3339(job.run_at)}."
    else:
        yield f"It has been due for {duration(-wait)} and nobody started it: see whether workers run with `jobpool status`."


def _pending(job: Job, queue: QueueState, live: Sequence[PoolState]) -> Iterator[str]:
    if queue.paused:
        yield f"Its queue {job.queue} is paused: jobpool resume {job.queue}"
    if not live:
        yield "No pool is running on this store: start one with `jobpool start --app YOUR_MODULE`."
    elif not any(serves(pool, job.queue) for pool in live):
        yield f"No running pool serves its queue {job.queue}: add it to [workers] queues or to a [[groups]] entry."
    elif not queue.paused:
        ahead = f"{queue.pending:,} jobs wait in {job.queue}" if queue.pending > 1 else "it is the only one waiting"
        yield f"It waits for a free worker; {ahead}."
    if job.misfits:
        yield f"{job.misfits} workers handed it back because they do not know its type or payload: deploy their code."


def _running(job: Job, now: float) -> Iterator[str]:
    since = job.started_at or job.claimed_at
    lasting = f" for {duration(now - since)}" if since else ""
    yield f"It runs{lasting} on {job.worker_id} (attempt {job.retry_count + 1})."
    if job.progress is not None:
        yield f"It says it is {job.progress:.0%} done. {job.progress_note or ''}".strip()
    if job.cancel_requested:
        yield "It was asked to stop and has not noticed yet."


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
