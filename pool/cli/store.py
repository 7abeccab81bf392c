"""Opening the store for a verb: where it is, whether it may be created, and that a stopped terminal never locks it."""

import contextlib
import functools
import json
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from pool.backends.contract import Backend
from pool.backends.opening import open_backend
from pool.client import Client
from pool.config import Loaded, default_database
from pool.errors import BackendUnavailable
from pool.jobs.documents import REDACT_SETTING, hidden_fields
from pool.jobs.published import PublishedTypes
from pool.jobs.registry import defaults_from, registry
from pool.place import Place

ConfigFile = Annotated[str | None, typer.Option("--config", metavar="FILE", help="Configuration file.")]
BackendUrl = Annotated[str | None, typer.Option("--backend", metavar="URL", help="Where the jobs rest.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


class NoStore(BackendUnavailable):
    """The default place is empty: most likely the wrong user or machine, so nothing is created there."""

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"sqlite:///{path}",
            "there is no database yet. Start a pool with `jobpool start`, or say where the jobs rest with --backend URL",
        )


@contextlib.contextmanager
def opened(loaded: Loaded) -> Iterator[Backend]:
    """The store; closed afterwards. NoStore when nobody said where it is and there is none at the default place."""
    refuse_missing_default(loaded)
    settings = loaded.config.backend
    backend = open_backend(settings.url, namespace=settings.namespace, producer=True)
    try:
        yield cast(Backend, Unstoppable(backend))
    finally:
        backend.close()


def refuse_missing_default(loaded: Loaded) -> None:
    is_default = loaded.origin("backend.url") == loaded.origin("backend.url_file") == "default"
    path = default_database(loaded.config)
    if is_default and not path.exists():
        raise NoStore(path)


def client_of(loaded: Loaded) -> Client:
    """A client of the configured store, with the limits and defaults of this configuration."""
    refuse_missing_default(loaded)
    registry.defaults = defaults_from(loaded.config.jobs)
    backend, jobs = loaded.config.backend, loaded.config.jobs
    client = Client(backend.url, namespace=backend.namespace)
    client._place = Place(backend.url, backend.namespace, jobs.max_payload)
    return client


def published_types(store: Backend) -> PublishedTypes:
    """The job types that the running pools know."""
    return PublishedTypes(state.facts for state in store.pools())


def redacted_fields(store: Backend, loaded: Loaded | None = None) -> dict[str, frozenset[str]]:
    """Type → payload fields that are never shown: as the store remembers, as running pools say, as configured."""
    kept = json.loads(store.setting(REDACT_SETTING) or "{}")
    found = {name: frozenset(fields) for name, fields in kept.items()}
    for state in store.pools():
        found |= hidden_fields(state.facts.get("types") or {})
    if loaded is not None:
        found |= {entry.name: frozenset(entry.redact) for entry in loaded.config.types}
        found |= {entry.type: frozenset(entry.redact) for entry in loaded.config.commands}
    return found


class Unstoppable:
    """Passes calls on with the terminal's stop signal held back: Ctrl-Z in a transaction would lock everyone out."""

    def __init__(self, backend: Any) -> None:
        self._backend = backend

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._backend, name)
        return _without_stop_signal(value) if callable(value) else value


def _without_stop_signal(call: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(call)
    def guarded(*args: Any, **kwargs: Any) -> Any:
        with unstoppable():
            return call(*args, **kwargs)

    return guarded


@contextlib.contextmanager
def unstoppable() -> Iterator[None]:
    """Inside, the terminal's stop signal waits, whichever thread the kernel gives it to: a mask would hold back one thread's only."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    asked: list[int] = []
    before = signal.signal(signal.SIGTSTP, lambda number, frame: asked.append(number))
    signal.siginterrupt(signal.SIGTSTP, False)
    try:
        yield
    finally:
        signal.signal(signal.SIGTSTP, before)
        if asked:
            signal.raise_signal(signal.SIGTSTP)
