"""`move --from URL --to URL`: all jobs of one store into another, between SQLite and Redis or within one kind."""

import contextlib
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from pool.backends.opening import open_backend, sqlite_path
from pool.cli import moving
from pool.cli.moving import Account, Side, Told
from pool.cli.output import remark, say, say_facts, say_json
from pool.cli.store import AsJson, unstoppable
from pool.clock import monotonic_now
from pool.errors import ConfigError

TELL_EVERY_S = 5.0

From = Annotated[str, typer.Option("--from", metavar="URL", help="Where the jobs rest now.")]
To = Annotated[str, typer.Option("--to", metavar="URL", help="Where they are to rest: an empty store or namespace.")]
FromNamespace = Annotated[str, typer.Option("--from-namespace", metavar="NAME", help="On Redis.")]
ToNamespace = Annotated[str, typer.Option("--to-namespace", metavar="NAME", help="On Redis.")]


def move(
    source_url: From,
    target_url: To,
    from_namespace: FromNamespace = "default",
    to_namespace: ToNamespace = "default",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be moved, and change nothing.")] = False,
    as_json: AsJson = False,
) -> None:
    """Move all jobs to another store. No pool may run on either. Interrupted, it is simply run again."""
    refuse_missing_source(source_url)
    if dry_run and _is_missing(target_url):
        with opened(source_url, from_namespace, create=False) as source:
            _report(source, f"{target_url} (not there yet, will be made)", moving.look(source), as_json, dry_run=True)
        return
    with opened(source_url, from_namespace, create=False) as source, opened(target_url, to_namespace) as target:
        moving.refuse_if_impossible(source, target)
        account = moving.look(source) if dry_run else _move(source, target)
        _report(source, target.name, account, as_json, dry_run=dry_run)


@contextlib.contextmanager
def opened(url: str, namespace: str, *, create: bool = True) -> Iterator[Side]:
    """A side of the move, closed at the end."""
    backend = open_backend(url, namespace=namespace, producer=True, create=create)
    try:
        yield moving.side_of(backend, namespace)
    finally:
        backend.close()


def refuse_missing_source(url: str) -> None:
    """ConfigError for a database that is not there: it must not be made only to be found empty."""
    if _is_missing(url):
        raise ConfigError(f"{sqlite_path(url)} is not there: name the database that holds the jobs with --from")


def _is_missing(url: str) -> bool:
    return url.startswith("sqlite:") and not Path(sqlite_path(url)).exists()


def _move(source: Side, target: Side) -> Account:
    """A stopped terminal must not stop us in the middle of a transaction; Ctrl-C may come at any moment."""
    with unstoppable(), _progress() as told:
        return moving.move(source, target, told, time.sleep, remark)


@contextlib.contextmanager
def _progress() -> Iterator[Told]:
    """A bar on a terminal, else a line now and then; on standard error."""
    if not sys.stderr.isatty():
        yield _lines()
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    columns = ("moving jobs", BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("move", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _lines() -> Told:
    next_line = monotonic_now() + TELL_EVERY_S

    def told(done: int, total: int) -> None:
        nonlocal next_line
        if monotonic_now() >= next_line:
            remark(f"{done:,} of {total:,} jobs moved")
            next_line = monotonic_now() + TELL_EVERY_S

    return told


def _report(source: Side, target: str, account: Account, as_json: bool, *, dry_run: bool) -> None:
    if as_json:
        say_json({"from": source.name, "to": target, "dry_run": dry_run, **account.as_document()})
        return
    say(f"{'would move' if dry_run else 'moved'} from {source.name} to {target}:")
    say_facts((name.replace("keys", "idempotency keys"), count) for name, count in account.as_document().items())
    if not dry_run:
        say("Set backend.url to the new place, then start the pools.")
