"""Verbs about jobs: `jobs list|show|cancel|retry|why`."""

from typing import Annotated

import typer

from pool.backends.contract import Backend
from pool.cli.audit import note
from pool.cli.choosing import choosing
from pool.cli.flags import load
from pool.cli.listing import say_job, say_jobs
from pool.cli.output import say, say_json
from pool.cli.selection import Act, DryRun, Rate, Selection, act_on_each
from pool.cli.store import AsJson, BackendUrl, ConfigFile, opened, redacted_fields
from pool.config import Loaded
from pool.jobs.documents import job_document
from pool.jobs.lifecycle import Status

JobId = Annotated[str, typer.Argument(metavar="JOB", help="The job's id.")]
Limit = Annotated[int, typer.Option("--limit", min=1, help="At most so many.")]
Force = Annotated[bool, typer.Option("--force", help="Kill the worker of a running job that does not stop by itself.")]

CANCELLABLE = (Status.SCHEDULED, Status.PENDING, Status.RUNNING)
RETRYABLE = (Status.FAILED, Status.CANCELLED)

jobs_app = typer.Typer(help="Look at jobs, cancel them, run them again.", no_args_is_help=True)


@jobs_app.command("list")
@choosing("status type queue reason text older_than newer_than batch", among=(None,))
def list_jobs(
    which: Selection,
    limit: Limit = 50,
    as_json: AsJson = False,
    config: ConfigFile = None,
    backend: BackendUrl = None,
) -> None:
    """List jobs, newest first."""
    list_those(which, limit, load(config, backend), as_json=as_json, empty="no jobs")


def list_those(which: Selection, limit: int, loaded: Loaded, *, as_json: bool, empty: str) -> None:
    """Show the jobs that are meant, with what their types hide left out; the words of `empty` when there are none."""
    with opened(loaded) as store:
        found = list(which.jobs(store, limit))
        hidden = redacted_fields(store, loaded)
    say_jobs(found, hidden, as_json=as_json, empty=empty)


@jobs_app.command("show")
def show(job: JobId, as_json: AsJson = False, config: ConfigFile = None, backend: BackendUrl = None) -> None:
    """Show one job with its attempts."""
    loaded = load(config, backend)
    with opened(loaded) as store:
        found = store.job(job)
        document = job_document(found, redacted_fields(store, loaded).get(found.type, ()))
    say_json(document) if as_json else say_job(found, document)


@jobs_app.command("cancel")
@choosing("status type queue text older_than newer_than batch", among=CANCELLABLE, changes=True)
def cancel(
    which: Selection,
    force: Force = False,
    dry_run: DryRun = False,
    rate: Rate = None,
    as_json: AsJson = False,
    config: ConfigFile = None,
    backend: BackendUrl = None,
) -> None:
    """Cancel jobs, by id or by filter: those that wait never run; running ones are asked to stop."""
    which.require("jobs cancel")
    if force and len(which.ids) != 1:
        raise typer.BadParameter("--force kills a worker: it is for one job, give its id")
    loaded = load(config, backend)
    with opened(loaded) as store:
        if len(which.ids) == 1 and not dry_run:
            _cancel_one(store, loaded, which.ids[0], force=force, as_json=as_json)
            return
        act = Act(verb="jobs cancel", done_word="cancelled", do=store.cancel)
        code = act_on_each(store, which, act, dry_run=dry_run, rate=rate, as_json=as_json)
    raise typer.Exit(code)


@jobs_app.command("retry")
@choosing("status type queue reason text older_than newer_than group batch", among=RETRYABLE, changes=True)
def retry(
    which: Selection,
    dry_run: DryRun = False,
    rate: Rate = None,
    as_json: AsJson = False,
    config: ConfigFile = None,
    backend: BackendUrl = None,
) -> None:
    """Run failed or cancelled jobs again, by id or by filter. Their counts start anew, their history stays."""
    which.require("jobs retry")
    loaded = load(config, backend)
    with opened(loaded) as store:
        if len(which.ids) == 1 and not dry_run:
            _retry_one(store, loaded, which.ids[0], as_json=as_json)
            return
        act = Act(verb="jobs retry", done_word="retried", do=store.revive)
        code = act_on_each(store, which, act, dry_run=dry_run, rate=rate, as_json=as_json)
    raise typer.Exit(code)


@jobs_app.command("why")
def why(job: JobId, as_json: AsJson = False, config: ConfigFile = None, backend: BackendUrl = None) -> None:
    """Say why a job is where it is, and what to do about it."""
    from pool.why import reasons

    with opened(load(config, backend)) as store:
        found = store.job(job)
        sentences = reasons(
            found,
            store.queues(),
            store.pools(),
            now=store.server_now(),
            limits=store.limits() if found.limit_key else (),
            ahead=store.ahead(job),
            is_ageing=store.ageing() > 0,
        )
    if as_json:
        say_json({"id": found.id, "status": found.status.value, "why": sentences})
    for sentence in [] if as_json else sentences:
        say(sentence)


def _cancel_one(store: Backend, loaded: Loaded, job_id: str, *, force: bool, as_json: bool) -> None:
    from pool.cli.forcing import kill_worker_of

    note(store, "jobs cancel", {"jobs": [job_id], **({"force": True} if force else {})})
    found = store.cancel(job_id)
    if force and found.status is Status.RUNNING:
        found = kill_worker_of(store, loaded.config, found)
    if as_json:
        say_json(job_document(found, redacted_fields(store, loaded).get(found.type, ())))
    elif found.status is Status.RUNNING:
        say(f"asked job {job_id} to stop; it runs until it notices, see: jobpool jobs show {job_id}")
    else:
        say(f"{found.status.value} job {job_id}")


def _retry_one(store: Backend, loaded: Loaded, job_id: str, *, as_json: bool) -> None:
    note(store, "jobs retry", {"jobs": [job_id]})
    found = store.revive(job_id)
    if as_json:
        say_json(job_document(found, redacted_fields(store, loaded).get(found.type, ())))
    else:
        say(f"job {job_id} is {found.status.value} again")
