"""Verbs about single jobs and dead letters: `jobs list|show|cancel|retry|why`, `dead list|show|retry|discard`."""

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Annotated, Any

import typer

from pool.backends.contract import Backend, JobFilter
from pool.cli.failures import NEGATIVE
from pool.cli.output import duration, one_line, remark, say, say_facts, say_json, say_table
from pool.cli.store import AsJson, BackendUrl, ConfigFile, load, opened
from pool.clock import as_rfc3339, wall_now
from pool.errors import CallerError
from pool.jobs.documents import cause_text, job_document
from pool.jobs.job import Job
from pool.jobs.lifecycle import Reason, Status
from pool.jobs.priority import label_of
from pool.jobs.times import parse_time

PAGE = 500

JobId = Annotated[str, typer.Argument(metavar="JOB", help="The job's id.")]
TypeFilter = Annotated[str | None, typer.Option("--type", help="Only this job type.")]
QueueFilter = Annotated[str | None, typer.Option("--queue", help="Only this queue.")]
ReasonFilter = Annotated[Reason | None, typer.Option("--reason", help="Only dead letters with this reason.")]
TextFilter = Annotated[str | None, typer.Option("--text", help="Only with this text in id, type, error or payload.")]
BeforeFilter = Annotated[
    str | None, typer.Option("--before", metavar="TIME", help="Only finished before this time (RFC 3339).")
]
Limit = Annotated[int, typer.Option("--limit", min=1, help="At most so many.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and change nothing.")]

jobs_app = typer.Typer(help="Look at jobs, cancel them, run them again.", no_args_is_help=True)
dead_app = typer.Typer(help="The dead letters: failed jobs.", no_args_is_help=True)


# ---------------------------------------------------------------- jobs


@jobs_app.command("list")
def list_jobs(
    status: Annotated[Status | None, typer.Option("--status", help="Only in this state.")] = None,
    type_: TypeFilter = None,
    queue: QueueFilter = None,
    text: TextFilter = None,
    limit: Limit = 50,
    as_json: AsJson = False,
    config: ConfigFile = None,
    backend: BackendUrl = None,
) -> None:
    """List jobs, newest first."""
    with opened(load(config, backend)) as store:
        found = list(matching(store, JobFilter(status=status, type=type_, queue=queue, text=text), limit))
    _say_jobs(found, as_json=as_json, empty="no jobs")


@jobs_app.command("show")
@dead_app.command("show")
def show(job: JobId, as_json: AsJson = False, config: ConfigFile = None, backend: BackendUrl = None) -> None:
    """Show one job with its attempts."""
    with opened(load(config, backend)) as store:
        found = store.job(job)
    say_json(job_document(found)) if as_json else _say_job(found)


@jobs_app.command("cancel")
def cancel(job: JobId, as_json: AsJson = False, config: ConfigFile = None, backend: BackendUrl = None) -> None:
    """Cancel a job: one that waits never runs; a running one is asked to stop."""
    with opened(load(config, backend)) as store:
        found = store.cancel(job)
    if as_json:
        say_json(job_document(found))
    elif found.status is Status.RUNNING:
        say(f"asked job {job} to stop; it runs until it notices, see: jobpool jobs show {job}")
    else:
        say(f"cancelled job {job}")


@jobs_app.command("retry")
def retry(job: JobId, as_json: AsJson = False, config: ConfigFile = None, backend: BackendUrl = None) -> None:
    """Run a failed or cancelled job again."""
    with opened(load(config, backend)) as store:
        found = store.revive(job)
    say_json(job_document(found)) if as_json else say(f"job {job} is {found.status.value} again")


@jobs_app.command("why")
def why(job: JobId, as_json: AsJson = False, config: ConfigFile = None, backend: BackendUrl = None) -> None:
    """Say why a job is where it is, and what to do about it."""
    from pool.cli.why import reasons

    with opened(load(config, backend)) as store:
        found = store.job(job)
        sentences = reasons(found, store.queues(), store.pools(), now=store.server_now())
    if as_json:
        say_json({"id": found.id, "status": found.status.value, "why": sentences})
    for sentence in [] if as_json else sentences:
        say(sentence)


# ---------------------------------------------------------------- dead letters


@dead_app.command("list")
def list_dead(
    type_: TypeFilter = None,
    queue: QueueFilter = None,
    reason: ReasonFilter = None,
    text: TextFilter = None,
    before: BeforeFilter = None,
    limit: Limit = 50,
    as_json: AsJson = False,
    config: ConfigFile = None,
    backend: BackendUrl = None,
) -> None:
    """List failed jobs, newest first."""
    with opened(load(config, backend)) as store:
        found = list(matching(store, _dead(type_, queue, reason, text, before), limit))
    _say_jobs(found, as_json=as_json, empty="no dead letters")


@dead_app.command("retry")
def retry_dead(
    jobs: Annotated[list[str] | None, typer.Argument(metavar="[JOB]...", help="Ids; or use filters.")] = None,
    type_: TypeFilter = None,
    queue: QueueFilter = None,
    reason: ReasonFilter = None,
    text: TextFilter = None,
    before: BeforeFilter = None,
    everything: Annotated[bool, typer.Option("--all", help="All of them.")] = False,
    dry_run: DryRun = False,
    as_json: AsJson = False,
    config: ConfigFile = None,
    backend: BackendUrl = None,
) -> None:
    """Run failed jobs again: by id, or all that match the filters."""
    which = _dead(type_, queue, reason, text, before)
    _refuse_sweep("retry", jobs, which, everything=everything)
    with opened(load(config, backend)) as store:
        code = _each(store, jobs, which, store.revive, "retried", dry_run=dry_run, as_json=as_json)
    raise typer.Exit(code)


@dead_app.command("discard")
def discard_dead(
    jobs: Annotated[list[str] | None, typer.Argument(metavar="[JOB]...", help="Ids; or use filters.")] = None,
    type_: TypeFilter = None,
    queue: QueueFilter = None,
    reason: ReasonFilter = None,
    text: TextFilter = None,
    before: BeforeFilter = None,
    everything: Annotated[bool, typer.Option("--all", help="All of them.")] = False,
    dry_run: DryRun = False,
    as_json: AsJson = False,
    config: ConfigFile = None,
    backend: BackendUrl = None,
) -> None:
    """Give failed jobs up for good: they become cancelled with the reason `discarded`."""
    which = _dead(type_, queue, reason, text, before)
    _refuse_sweep("discard", jobs, which, everything=everything)
    with opened(load(config, backend)) as store:
        code = _each(store, jobs, which, store.discard, "discarded", dry_run=dry_run, as_json=as_json)
    raise typer.Exit(code)


def _dead(
    type_: str | None, queue: str | None, reason: Reason | None, text: str | None, before: str | None
) -> JobFilter:
    finished_before = parse_time(before, "--before") if before else None
    return JobFilter(
        status=Status.FAILED,
        type=type_,
        queue=queue,
        reason=reason.value if reason else None,
        text=text,
        finished_before=finished_before,
    )


def _refuse_sweep(verb: str, jobs: list[str] | None, which: JobFilter, *, everything: bool) -> None:
    """All dead letters at once only when a person says so in as many words."""
    if not jobs and which == JobFilter(status=Status.FAILED) and not everything:
        raise typer.BadParameter(f"say which: job ids, filters such as --type, or --all (jobpool dead {verb} --help)")


def _each(
    store: Backend,
    ids: list[str] | None,
    which: JobFilter,
    act: Callable[[str], Job],
    done_word: str,
    *,
    dry_run: bool,
    as_json: bool,
) -> int:
    """Act on each job by itself; one that refuses does not stop the others. 1 when any refused."""
    targets = ids or [job.id for job in matching(store, which, None)]
    done, refused = [], {}
    for job_id in targets:
        try:
            done.append(store.job(job_id).id if dry_run else act(job_id).id)
        except CallerError as error:
            refused[job_id] = str(error)
    if as_json:
        say_json({done_word: done, "refused": refused, "dry_run": dry_run})
    else:
        say(f"{'would have ' if dry_run else ''}{done_word} {len(done)} of {len(targets)} jobs")
        for sentence in refused.values():
            remark(sentence)
    return NEGATIVE if refused else 0


# ---------------------------------------------------------------- reading and showing


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


def _say_jobs(jobs: list[Job], *, as_json: bool, empty: str) -> None:
    if as_json:
        say_json([job_document(job) for job in jobs])
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
    reason = f"{job.reason.value}: " if job.reason else ""
    return one_line(f"{reason}{job.error or job.progress_note or ''}".removesuffix(": "))


def _say_job(job: Job) -> None:
    document = job_document(job)
    progress = f"{job.progress:.0%} {job.progress_note or ''}" if job.progress is not None else None
    shown = ("id", "type", "queue", "status", "reason", "error", "run_at", "expires_at", "worker_id")
    say_facts([(name, document[name]) for name in shown])
    say_facts(
        [
            ("priority", label_of(job.priority)),
            ("retries", f"{job.retry_count} of {job.max_retries}"),
            ("workers killed", job.kill_count or None),
            ("progress", progress),
            ("payload", job.payload),
            ("result", job.result),
            *((name, document[name]) for name in ("idempotency_key", "unique_key", "parent_id")),
            *((name, document[name]) for name in ("created_at", "started_at", "finished_at")),
        ]
    )
    if job.attempts:
        say()
        say_table(("attempt", "started", "ended", "outcome", "worker", "cause"), _attempt_rows(job), title="Attempts")


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
