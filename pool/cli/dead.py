"""Verbs about the dead letters, which are the failed jobs: `dead list|show|retry|discard`."""

from collections.abc import Callable
from typing import Annotated

import typer

from pool.backends.contract import Backend, JobFilter
from pool.cli import jobs as job_verbs
from pool.cli.failures import NEGATIVE
from pool.cli.jobs import Limit, QueueFilter, TextFilter, TypeFilter
from pool.cli.listing import matching, say_jobs
from pool.cli.output import remark, say, say_json
from pool.cli.store import AsJson, BackendUrl, ConfigFile, load, opened, redacted_fields
from pool.errors import CallerError
from pool.jobs.job import Job
from pool.jobs.lifecycle import Reason, Status
from pool.jobs.times import parse_time

ReasonFilter = Annotated[Reason | None, typer.Option("--reason", help="Only dead letters with this reason.")]
BeforeFilter = Annotated[
    str | None, typer.Option("--before", metavar="TIME", help="Only finished before this time (RFC 3339).")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and change nothing.")]

dead_app = typer.Typer(help="The dead letters: failed jobs.", no_args_is_help=True)
dead_app.command("show")(job_verbs.show)


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
        hidden = redacted_fields(store)
    say_jobs(found, hidden, as_json=as_json, empty="no dead letters")


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
