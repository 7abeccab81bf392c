"""Verbs about single jobs: `jobs list|show|cancel|retry|why`."""

from typing import Annotated

import typer

from pool.backends.contract import JobFilter
from pool.cli.listing import matching, say_job, say_jobs
from pool.cli.output import say, say_json
from pool.cli.store import AsJson, BackendUrl, ConfigFile, load, opened, redacted_fields
from pool.jobs.documents import job_document
from pool.jobs.lifecycle import Status

JobId = Annotated[str, typer.Argument(metavar="JOB", help="The job's id.")]
TypeFilter = Annotated[str | None, typer.Option("--type", help="Only this job type.")]
QueueFilter = Annotated[str | None, typer.Option("--queue", help="Only this queue.")]
TextFilter = Annotated[str | None, typer.Option("--text", help="Only with this text in id, type, error or payload.")]
Limit = Annotated[int, typer.Option("--limit", min=1, help="At most so many.")]

jobs_app = typer.Typer(help="Look at jobs, cancel them, run them again.", no_args_is_help=True)


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
        hidden = redacted_fields(store)
    say_jobs(found, hidden, as_json=as_json, empty="no jobs")


@jobs_app.command("show")
def show(job: JobId, as_json: AsJson = False, config: ConfigFile = None, backend: BackendUrl = None) -> None:
    """Show one job with its attempts."""
    with opened(load(config, backend)) as store:
        found = store.job(job)
        document = job_document(found, redacted_fields(store).get(found.type, ()))
    say_json(document) if as_json else say_job(found, document)


@jobs_app.command("cancel")
def cancel(job: JobId, as_json: AsJson = False, config: ConfigFile = None, backend: BackendUrl = None) -> None:
    """Cancel a job: one that waits never runs; a running one is asked to stop."""
    with opened(load(config, backend)) as store:
        found = store.cancel(job)
        document = job_document(found, redacted_fields(store).get(found.type, ()))
    if as_json:
        say_json(document)
    elif found.status is Status.RUNNING:
        say(f"asked job {job} to stop; it runs until it notices, see: jobpool jobs show {job}")
    else:
        say(f"cancelled job {job}")


@jobs_app.command("retry")
def retry(job: JobId, as_json: AsJson = False, config: ConfigFile = None, backend: BackendUrl = None) -> None:
    """Run a failed or cancelled job again."""
    with opened(load(config, backend)) as store:
        found = store.revive(job)
        document = job_document(found, redacted_fields(store).get(found.type, ()))
    say_json(document) if as_json else say(f"job {job} is {found.status.value} again")


@jobs_app.command("why")
def why(job: JobId, as_json: AsJson = False, config: ConfigFile = None, backend: BackendUrl = None) -> None:
    """Say why a job is where it is, and what to do about it."""
    from pool.why import reasons

    with opened(load(config, backend)) as store:
        found = store.job(job)
        sentences = reasons(found, store.queues(), store.pools(), now=store.server_now())
    if as_json:
        say_json({"id": found.id, "status": found.status.value, "why": sentences})
    for sentence in [] if as_json else sentences:
        say(sentence)
