"""From a fresh process to a worker that may claim: signals, lines, the application's code, its hooks."""

import importlib
import sys
from pathlib import Path

from pool.errors import JobpoolError
from pool.jobs.policy import Exponential
from pool.jobs.registry import Defaults, registry
from pool.settings import Config, JobsSection
from pool.worker import hooking
from pool.worker.causes import traceback_of
from pool.worker.commands import register_commands

REMARK_BYTES = 4000


class BootFailed(JobpoolError):
    """The application's code cannot be used; the text is for people."""


def load_app(config: Config) -> None:
    """Import the app's modules and register its commands; BootFailed with the cleaned traceback of what is wrong."""
    registry.defaults = defaults_of(config.jobs)
    folder = str(Path(config.app.path).expanduser().absolute())
    if folder not in sys.path[:1]:
        sys.path.insert(0, folder)
    for name in config.app.modules:
        _import(name)
    register_commands(config, registry)
    hooking.boot()


def defaults_of(jobs: JobsSection) -> Defaults:
    """The `[jobs]` table as the registry knows it."""
    rule = jobs.backoff
    return Defaults(
        max_retries=jobs.max_retries,
        timeout=jobs.timeout,
        max_kills=jobs.max_kills,
        backoff=Exponential(rule.first, factor=rule.factor, cap=rule.cap, jitter=rule.jitter),
    )


def remark_of(error: BaseException) -> bytes:
    """The end of the text, which has the point of it, as it fits on the board."""
    return str(error).encode("utf-8", "backslashreplace").replace(b"\0", b"")[-REMARK_BYTES:]


def _import(name: str) -> None:
    try:
        importlib.import_module(name)
    except BaseException as error:  # SystemExit too: a module that ends the process is no module
        raise BootFailed(f"app module {name!r} cannot be imported\n{traceback_of(error)}") from None
