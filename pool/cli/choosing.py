"""The filters that verbs about many jobs share: options of the command line that become one `Selection`."""

import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any

import typer

from pool.cli.selection import Selection
from pool.jobs.lifecycle import Reason, Status

Verb = Callable[..., None]

_OPTIONS: dict[str, Any] = {
    "jobs": Annotated[list[str] | None, typer.Argument(metavar="[JOB]...", help="Ids; or use filters.")],
    "status": Annotated[Status | None, typer.Option("--status", help="Only in this state.")],
    "type": Annotated[str | None, typer.Option("--type", help="Only this job type.")],
    "queue": Annotated[str | None, typer.Option("--queue", help="Only this queue.")],
    "reason": Annotated[Reason | None, typer.Option("--reason", help="Only those that ended for this reason.")],
    "text": Annotated[str | None, typer.Option("--text", help="Only with this text in id, type, error or payload.")],
    "before": Annotated[
        str | None, typer.Option("--before", metavar="TIME", help="Only finished before this time (RFC 3339).")
    ],
    "older_than": Annotated[
        str | None,
        typer.Option("--older-than", metavar="AGE", help="Only this long over, or waiting: 90, 10m, 2h, 7d."),
    ],
    "newer_than": Annotated[
        str | None, typer.Option("--newer-than", metavar="AGE", help="Only over, or enqueued, within this time.")
    ],
    "group": Annotated[
        str | None, typer.Option("--group", metavar="FINGERPRINT", help="Only this failure, see: jobpool dead groups")
    ],
    "batch": Annotated[str | None, typer.Option("--batch", metavar="ID", help="Only members of this batch.")],
    "everything": Annotated[bool, typer.Option("--all", help="All of them.")],
}
_CHANGING = ("jobs", "everything")  # what a verb takes that changes something


def choosing(filters: str, *, among: tuple[Status | None, ...], changes: bool = False) -> Callable[[Verb], Verb]:
    """Above a verb whose first parameter is a `Selection`: it gets these filters (words) as its options instead.

    `among` are the states the verb is about, of which `--status` names one. A verb that `changes` something also takes
    ids and `--all`, and one of them must be said.
    """
    names = ["jobs", *filters.split(), "everything"] if changes else filters.split()

    def with_options(verb: Verb) -> Verb:
        @functools.wraps(verb)
        def run(**given: Any) -> None:
            verb(_selection({name: given.pop(name) for name in names}, among), **given)

        run.__signature__ = _signature(verb, names)  # type: ignore[attr-defined]
        return run

    return with_options


def _selection(said: dict[str, Any], among: tuple[Status | None, ...]) -> Selection:
    status = said.pop("status", None)
    ids = tuple(said.pop("jobs", None) or ())
    return Selection(statuses=(status,) if status else among, ids=ids, **said)


def _signature(verb: Verb, names: list[str]) -> inspect.Signature:
    """The verb's own, with options in the place of the selection."""
    own = list(inspect.signature(verb).parameters.values())[1:]
    lent = [_parameter(name) for name in names]
    return inspect.Signature([*lent, *(each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in own)])


def _parameter(name: str) -> inspect.Parameter:
    default = False if name == "everything" else None
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=_OPTIONS[name])
