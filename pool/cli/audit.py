"""The audit log: who did what to jobs and queues from the command line, and when. It rests in the store, for all hosts."""

import contextlib
import getpass
import json
import os
import socket
from typing import Annotated, Any

import typer

from pool.backends.contract import AuditEntry, Backend
from pool.cli.flags import load
from pool.cli.output import one_line, say_json, say_table
from pool.cli.store import AsJson, BackendUrl, ConfigFile, opened
from pool.clock import as_rfc3339
from pool.errors import JobpoolError


def note(store: Backend, act: str, details: dict[str, Any]) -> None:
    """Write it down before it is done, so that nothing goes unrecorded."""
    store.note(AuditEntry(who=person(), act=act, details=json.dumps(details, ensure_ascii=False)))


def note_order(config: str | None, verb: str, options: dict[str, Any]) -> None:
    """An order that a pool has obeyed. Without a store to write it to, it stands in the pool's own log alone."""
    with contextlib.suppress(JobpoolError), opened(load(config)) as store:
        note(store, verb, options)


def person() -> str:
    """`alice@host`, the one behind sudo too."""
    name = os.environ.get("SUDO_USER") or ""
    if not name:
        with contextlib.suppress(OSError, KeyError):
            name = getpass.getuser()
    return f"{name or f'uid {os.getuid()}'}@{socket.gethostname()}"


def audit(
    limit: Annotated[int, typer.Option("--limit", min=1, max=10_000, help="At most so many, newest first.")] = 50,
    as_json: AsJson = False,
    config: ConfigFile = None,
    backend: BackendUrl = None,
) -> None:
    """List what people did to jobs and queues: who, when, what."""
    with opened(load(config, backend)) as store:
        entries = store.audit(limit)
    if as_json:
        say_json([_document(entry) for entry in entries])
        return
    rows = [(as_rfc3339(entry.at), entry.who, entry.act, one_line(_words(entry), 100)) for entry in entries]
    say_table(("when", "who", "what", "details"), rows, empty="nothing was done yet")


def _document(entry: AuditEntry) -> dict[str, Any]:
    return {"at": as_rfc3339(entry.at), "who": entry.who, "act": entry.act, "details": json.loads(entry.details)}


def _words(entry: AuditEntry) -> str:
    details = json.loads(entry.details)
    return " ".join(f"{name}={_word(value)}" for name, value in details.items())


def _word(value: Any) -> str:
    if isinstance(value, dict):
        return ",".join(f"{name}:{inner}" for name, inner in value.items()) or "all"
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)
