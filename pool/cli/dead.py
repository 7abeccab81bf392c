"""Verbs about the dead letters, which are the failed jobs: `dead list|groups|show|retry|discard`."""

from collections.abc import Callable
from dataclasses import asdict
from typing import Annotated

import typer

from pool.backends.contract import Backend
from pool.cli import jobs as job_verbs
from pool.cli.audit import person
from pool.cli.choosing import choosing
from pool.cli.flags import load
from pool.cli.jobs import Limit
from pool.cli.output import duration, say_json, say_table
from pool.cli.payloads import edited_payload
from pool.cli.selection import Act, DryRun, Rate, Selection, act_on_each
from pool.cli.store import AsJson, BackendUrl, ConfigFile, opened
from pool.clock import as_rfc3339
from pool.config import Loaded
from pool.jobs.fingerprint import Family, families_of
from pool.jobs.job import Job
from pool.jobs.lifecycle import Status

DEAD = (Status.FAILED,)
FILTERS = "type queue reason text before older_than newer_than group batch"

dead_app = typer.Typer(help="The dead letters: failed jobs.", no_args_is_help=True)
dead_app.command("show")(job_verbs.show)


@dead_app.command("list")
@choosing(FILTERS, among=DEAD)
def list_dead(
    which: Selection,
    limit: Limit = 50,
    as_json: AsJson = False,
    config: ConfigFile = None,
    backend: BackendUrl = None,
) -> None:
    """List failed jobs, newest first."""
    job_verbs.list_those(which, limit, load(config, backend), as_json=as_json, empty="no dead letters")


@dead_app.command("groups")
@choosing("type queue reason text older_than newer_than", among=DEAD)
def list_groups(
    which: Selection,
    as_json: AsJson = False,
    config: ConfigFile = None,
    backend: BackendUrl = None,
) -> None:
    """List the different failures: how many jobs each, which error, since when. `--group` takes the fingerprint."""
    with opened(load(config, backend)) as store:
        families = families_of(which.jobs(store))
        now = store.server_now()
    if as_json:
        say_json([_family_document(family) for family in families])
        return
    rows = [
        (f.fingerprint, f.count, f.type, f.reason, f"{duration(now - f.last_at)} ago", _error_of(f)) for f in families
    ]
    say_table(("group", "jobs", "type", "reason", "last", "error"), rows, empty="no dead letters")


def _error_of(family: Family) -> str:
    """A dead worker has no exception class to name."""
    return f"{family.exception}: {family.shape}" if family.exception else family.shape


@dead_app.command("retry")
@choosing(FILTERS, among=DEAD, changes=True)
def retry_dead(
    which: Selection,
    payload: Annotated[
        str | None, typer.Option("--payload", metavar="JSON", help="Another payload, for one job; - reads it.")
    ] = None,
    dry_run: DryRun = False,
    rate: Rate = None,
    as_json: AsJson = False,
    config: ConfigFile = None,
    backend: BackendUrl = None,
) -> None:
    """Run failed jobs again: by id, or all that match the filters. Their counts start anew, their history stays."""
    which.require("dead retry")
    if payload is not None and len(which.ids) != 1:
        raise typer.BadParameter("--payload is for one job: give its id")
    loaded = load(config, backend)
    with opened(loaded) as store:
        act = Act(verb="dead retry", done_word="retried", do=_revive(store, loaded, payload), details=_edit(payload))
        code = act_on_each(store, which, act, dry_run=dry_run, rate=rate, as_json=as_json)
    raise typer.Exit(code)


@dead_app.command("discard")
@choosing(FILTERS, among=DEAD, changes=True)
def discard_dead(
    which: Selection,
    dry_run: DryRun = False,
    rate: Rate = None,
    as_json: AsJson = False,
    config: ConfigFile = None,
    backend: BackendUrl = None,
) -> None:
    """Give failed jobs up for good: they become cancelled with the reason `discarded`."""
    which.require("dead discard")
    with opened(load(config, backend)) as store:
        act = Act(verb="dead discard", done_word="discarded", do=store.discard)
        code = act_on_each(store, which, act, dry_run=dry_run, rate=rate, as_json=as_json)
    raise typer.Exit(code)


def _revive(store: Backend, loaded: Loaded, payload: str | None) -> Callable[[str], Job]:
    """With another payload if given, checked as at enqueue; the history says who replaced it."""
    if payload is None:
        return store.revive
    return lambda job_id: store.revive(
        job_id, payload=edited_payload(loaded, store.job(job_id).type, payload), by=person()
    )


def _edit(payload: str | None) -> dict[str, str] | None:
    """That it was edited, never what is in it."""
    return None if payload is None else {"payload": "replaced"}


def _family_document(family: Family) -> dict[str, object]:
    times = {"first_at": as_rfc3339(family.first_at), "last_at": as_rfc3339(family.last_at)}
    return {**asdict(family), **times}
