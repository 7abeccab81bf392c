"""The job types that a worker found in the app, told to the keeper, which tells the store.

The keeper never imports user code, so the workers write what they know to a file in the runtime directory. One worker
of each start does it, and each worker born later (a restart or a roll may bring new code).
"""

import json
import os
from pathlib import Path

from pool.config import runtime_dir
from pool.jobs.registry import Registry
from pool.logs import log
from pool.seat import Seat
from pool.settings import Config

TYPES_FILE = "types.json"


def publish_types(config: Config, registry: Registry, seat: Seat) -> None:
    """Write the file whole or leave the old one; a folder that cannot be written is logged and costs no job."""
    path = runtime_dir(config) / TYPES_FILE
    incarnation = seat.worker.pool.incarnation
    if seat.worker.generation == 1 and _is_written_by(path, incarnation):
        return
    try:
        document = json.dumps({"pool": incarnation, "types": registry.published()})
        _replace(path, document)
    except Exception as error:  # a type whose schema cannot be made must not cost the worker
        log.warning("job types not published", error=f"{type(error).__name__}: {error}")


def _is_written_by(path: Path, incarnation: str) -> bool:
    try:
        return bool(json.loads(path.read_text())["pool"] == incarnation)
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _replace(path: Path, text: str) -> None:
    temporary = path.with_suffix(f".{os.getpid()}")
    temporary.write_text(text)
    temporary.replace(path)
