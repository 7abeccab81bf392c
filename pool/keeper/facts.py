"""What a pool says of itself in its beat, for people on other hosts and for clients that enqueue by name."""

import json
from pathlib import Path
from typing import Any

from pool import config as configuration
from pool.board.board import Board
from pool.board.record import Role, State
from pool.settings import Config
from pool.version import VERSION

TYPES_FILE = "types.json"
TOLD_OF_A_GROUP = {"count", "queues", "min_priority", "max_priority"}


class Facts:
    """Groups, workers by state, version, schedule names, and the job types as the workers know them.

    The keeper never imports user code: each worker writes the types it found to `types.json` in the runtime directory.
    """

    def __init__(self, config: Config, board: Board) -> None:
        self._board = board
        self._types_path = Path(configuration.runtime_dir(config)) / TYPES_FILE
        self._declared = declared_types(config)
        self._types: dict[str, Any] = self._declared
        self._types_mtime_ns = 0
        groups = [("workers", config.workers), *((group.name, group) for group in config.groups)]
        self._fixed = {
            "version": VERSION,
            "groups": {name: group.model_dump(include=TOLD_OF_A_GROUP) for name, group in groups},
            "schedule": [entry.name for entry in config.schedule],
        }

    def now(self) -> dict[str, Any]:
        return {**self._fixed, "workers": self._workers_by_state(), "types": self.known_types()}

    def _workers_by_state(self) -> dict[str, int]:
        counts: dict[str, int] = {}
        for record in self._board.taken():
            if record.tenant.read().role == Role.WORKER and not record.note.read().pid:
                name = State(record.process.read().state).name.lower()
                counts[name] = counts.get(name, 0) + 1
        return counts

    def known_types(self) -> dict[str, Any]:
        """Type name → what a client needs to enqueue it; empty until the first worker has written them."""
        try:
            modified = self._types_path.stat().st_mtime_ns
            if modified != self._types_mtime_ns:
                self._types = {**self._declared, **json.loads(self._types_path.read_text())}
                self._types_mtime_ns = modified
        except (OSError, ValueError):
            pass  # not written yet, or being replaced: the next beat sees it
        return self._types

    @property
    def has_types(self) -> bool:
        """Whether a worker has written its types down."""
        return self._types_mtime_ns != 0

    def have_changed(self) -> bool:
        """Whether the workers have written other types than the last beat told."""
        try:
            return self._types_path.stat().st_mtime_ns != self._types_mtime_ns
        except OSError:
            return False


def declared_types(config: Config) -> dict[str, Any]:
    """What the configuration itself says of types without a Python function."""
    return {
        entry.name: {
            "queue": entry.queue,
            "max_retries": entry.max_retries,
            "schema": entry.payload_schema,
            "redact": entry.redact,
            "limit": entry.limit,
            "max_running": entry.max_running,
        }
        for entry in config.types
    }
