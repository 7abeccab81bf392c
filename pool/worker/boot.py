"""The application's code, as each worker imports it."""

import importlib
import json
import re
import sys
from pathlib import Path

from pool.client import Client, use
from pool.config import runtime_dir
from pool.errors import InvalidJob, JobpoolError
from pool.jobs.registry import defaults_from, registry
from pool.logs import log
from pool.place import place_of
from pool.settings import Config
from pool.worker import typesheet
from pool.worker.causes import traceback_of
from pool.worker.commands import register_commands

REMARK_BYTES = 4000


class BootFailed(JobpoolError):
    """The application's code cannot be used; the text is for people."""


def import_app(config: Config) -> int:
    """Import the app's modules and register its commands; BootFailed with the cleaned traceback of what is wrong.

    Returns how many modules there were before.
    """
    known = len(sys.modules)
    registry.defaults = defaults_from(config.jobs)
    use(Client.at(place_of(config)))  # a job that calls other.enqueue(…) means this pool's store, flags included
    folder = str(Path(config.app.path).expanduser().absolute())
    if folder not in sys.path[:1]:
        sys.path.insert(0, folder)
    for name in config.app.modules:
        _import(name, folder)
    try:
        register_commands(config, registry)
    except InvalidJob as error:
        raise BootFailed(str(error)) from None
    return known


def publish_types(config: Config, edition: str, known: int) -> None:
    """See that the keeper can publish what this code knows of its job types; BootFailed for one that cannot be described.

    `edition` names the reading of the configuration, `known` is how many modules there were before the application's.
    """
    folder = runtime_dir(config)
    try:
        for job_type in registry.types():
            job_type.signature.build()
        typesheet.publish(folder, typesheet.code_of(edition, known), _described)
    except InvalidJob as error:
        raise BootFailed(str(error)) from None
    except OSError as error:
        log.warning("cannot write the job types for the keeper", folder=str(folder), error=str(error))


def _described() -> str:
    return json.dumps(registry.published(), ensure_ascii=False)


def remark_of(error: BaseException) -> bytes:
    """The end of the text, which has the point of it, as it fits on the board."""
    return str(error).encode("utf-8", "backslashreplace").replace(b"\0", b"")[-REMARK_BYTES:]


def _import(name: str, folder: str) -> None:
    try:
        importlib.import_module(name)
    except BaseException as error:  # SystemExit too: a module that ends the process is no module
        said = f"app module {name!r} cannot be imported\n{traceback_of(error)}"
        raise BootFailed(said + _where_it_was_looked_for(error, name, folder)) from None


def _where_it_was_looked_for(error: BaseException, name: str, folder: str) -> str:
    """A hint for who started the pool in the wrong folder. The last line is the one that `status` shows."""
    if not all(part.isidentifier() for part in name.removesuffix(".py").split(".")):
        return _as_a_module(name)
    if not isinstance(error, ModuleNotFoundError) or error.name not in (name, name.partition(".")[0]):
        return ""
    if name.endswith(".py"):
        return _as_a_module(name)
    return f"{error.name}.py is not in {folder}: start the pool in its folder, or set [app] path"


def _as_a_module(name: str) -> str:
    """For `tasks.py`, `./jobs/tasks.py` and, as other servers have it, `tasks:app`."""
    module = re.sub(r"^\W+|\W+$", "", name.partition(":")[0].removesuffix(".py")).replace("/", ".")
    return f"{name} is no module: name it as in `import {module}`" if module else f"{name!r} is no module"
