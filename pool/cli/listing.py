"""Reading jobs page by page and showing them: shared by `jobs` and `dead`."""

import json
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from pool.backends.contract import Backend, JobFilter
from pool.cli.output import duration, one_line, say, say_facts, say_json, say_table
from pool.clock import as_rfc3339, wall_now
from pool.jobs.documents import cause_text, job_document
from pool.jobs.job import Job
from pool.jobs.lifecycle import Status
from pool.jobs.priority import label_of

PAGE = 500
Hidden = Mapping[str, frozenset[str]]


def matching(store: Backend, which: JobFilter, limit: int | None) -> Iterator[Job]:
    """Jobs newest first, page by page, at most `limit` (None: all)."""
    return islice(_pages(store, which, min(limit or PAGE, PAGE)), limit)


def _pages(store: Backend, which: JobFilter, size: int) -> Iterator[Job]:
    after: str | None = None
    while True:
        page = store.jobs(which, after=after, limit=size)
        yield from page.jobs
        if page.after is None:
            return
        after = page.after


def say_jobs(jobs: list[Job], hidden: Hidden, *, as_json: bool, empty: str) -> None:
    if as_json:
        say_json([job_document(job, hidden.get(job.type, ())) for job in jobs])
        return
    rows = [
        (
            job.id,
            job.type,
            job.queue,
            label_of(job.priority),
            job.status.value,
            f"{job.retry_count}/{job.max_retries}",
            _age(job),
            _remark_on(job),
        )
        for job in jobs
    ]
    say_table(("id", "type", "queue", "priority", "status", "retries", "since", "remark"), rows, empty=empty)


def _age(job: Job) -> str:
    since = job.finished_at or job.started_at if job.status is not Status.SCHEDULED else job.run_at
    seconds = wall_now() - (since or job.created_at)
    return f"in {duration(-seconds)}" if seconds < 0 else f"{duration(seconds)} ago"


def _remark_on(job: Job) -> str:
    """Why it failed or waits, or how far it says it is; a job that completed has its errors behind it."""
    if job.status is Status.COMPLETED:
        return ""
    if job.status is Status.RUNNING:
        return one_line(job.progress_note)
    return one_line(": ".join(part for part in (job.reason and job.reason.value, job.error) if part))


def say_job(job: Job, document: dict[str, Any]) -> None:
    say_facts(_facts(job, document))
    if job.attempts:
        say()
        say_table(("attempt", "started", "ended", "outcome", "worker", "cause"), _attempt_rows(job), title="Attempts")


def _facts(job: Job, document: dict[str, Any]) -> list[tuple[str, Any]]:
    """What is known of the job, the important first."""
    progress = f"{job.progress:.0%} {job.progress_note or ''}" if job.progress is not None else None
    return [
        *((name, document[name]) for name in ("id", "type", "queue", "status", "reason", "error")),
        ("priority", label_of(job.priority)),
        ("retries", f"{job.retry_count} of {job.max_retries}"),
        ("workers killed", job.kill_count or None),
        ("progress", progress),
        ("worker", job.worker_id),
        ("payload", json.dumps(document["payload"], ensure_ascii=False)),
        ("result", job.result),
        *((name, document[name]) for name in ("idempotency_key", "unique_key", "limit_key", "batch_id", "parent_id")),
        *((name, document[name]) for name in ("created_at", "run_at", "expires_at", "started_at", "finished_at")),
    ]


def _attempt_rows(job: Job) -> Iterator[tuple[Any, ...]]:
    for attempt in job.attempts:
        yield (
            attempt.number,
            as_rfc3339(attempt.started_at),
            as_rfc3339(attempt.ended_at),
            attempt.outcome.value,
            attempt.worker,
            one_line(cause_text(attempt.cause)),
        )
