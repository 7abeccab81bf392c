"""`schedule list|run`: what the clock enqueues, when next, and once now by hand."""

from collections.abc import Iterator
from typing import Annotated, Any

import typer

from pool.backends.contract import Backend
from pool.cli.audit import note
from pool.cli.flags import load
from pool.cli.output import say, say_json, say_table
from pool.cli.preflight import import_modules, read_schedule
from pool.cli.store import AsJson, BackendUrl, ConfigFile, client_of, opened, published_types, unstoppable
from pool.clock import as_rfc3339
from pool.config import Loaded
from pool.errors import CallerError, JobNotFound
from pool.jobs.documents import job_document
from pool.jobs.schedule import next_tick
from pool.keeper.schedule import read_entry
from pool.settings import ScheduleSection

schedule_app = typer.Typer(help="Jobs enqueued by the clock.", no_args_is_help=True)


@schedule_app.command("list")
def list_entries(as_json: AsJson = False, config: ConfigFile = None, backend: BackendUrl = None) -> None:
    """List the schedule entries with their last and next tick."""
    loaded = load(config, backend)
    read_schedule(loaded.config)
    if not loaded.config.schedule:
        say_json([]) if as_json else say("no schedule entries; add [[schedule]] to the configuration file")
        return
    documents = list(_documents(loaded))
    if as_json:
        say_json(documents)
        return
    names = ("name", "type", "when", "timezone", "last", "outcome", "next")
    say_table(
        ("entry", "type", "when", "time zone", "last", "outcome", "next"),
        [[d[name] for name in names] for d in documents],
    )


@schedule_app.command("run")
def run_entry(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The entry's name.")],
    as_json: AsJson = False,
    config: ConfigFile = None,
    backend: BackendUrl = None,
) -> None:
    """Enqueue an entry's job now. Its ticks go on as if nothing had happened."""
    loaded = load(config, backend)
    entry = _entry(loaded, name)
    options: dict[str, Any] = {"queue": entry.queue or None, "priority": entry.priority}
    with client_of(loaded) as client, unstoppable():
        if published_types(client.backend()).get(entry.type) is None and loaded.config.app.modules:
            import_modules(loaded.config)
        given = {key: value for key, value in options.items() if value is not None}
        note(client.backend(), "schedule run", {"entry": name})
        job = client.get(client.enqueue(entry.type, entry.payload, **given))
    say_json(job_document(job)) if as_json else say(f"{job.id} {job.status.value} in queue {job.queue}")


def _entry(loaded: Loaded, name: str) -> ScheduleSection:
    for entry in loaded.config.schedule:
        if entry.name == name:
            return entry
    names = ", ".join(entry.name for entry in loaded.config.schedule) or "none"
    raise CallerError(f"no schedule entry {name!r} in {loaded.path or 'the configuration'}; there are: {names}")


def _last_outcome(store: Backend, entry: str) -> str | None:
    """What became of the job of the last tick: its status, "forgotten" after its retention, None without one."""
    job_id = store.last_job(entry)
    try:
        return None if job_id is None else store.job(job_id).status.value
    except JobNotFound:
        return "forgotten"


def _documents(loaded: Loaded) -> Iterator[dict[str, Any]]:
    with opened(loaded) as store:
        now = store.server_now()
        for settings in loaded.config.schedule:
            upcoming = next_tick(read_entry(settings).timing, now)
            yield {
                "name": settings.name,
                "type": settings.type,
                "when": settings.cron or f"every {settings.every:g} s",
                "timezone": settings.timezone if settings.cron else "",
                "last": as_rfc3339(store.last_tick(settings.name)),
                "outcome": _last_outcome(store, settings.name),
                "next": as_rfc3339(upcoming),
            }
