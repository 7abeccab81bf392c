"""What the supervisor is asked to keep alive: the result of reading the configuration, and the way to read it again."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pool.identity import PoolId
from pool.seat import ChildSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The children of a pool and the ground they stand on.

    `specs`          one per group of children; (role, group) is unique; `ChildSpec.count` is what file, flag or default say
    `count_sources`  group → where its count comes from: "file", "flag", "environment" or "default" (for /status)
    `file_counts`    group → the count in the file alone; a reload that changes it beats `--workers` and `scale`
    `departures_dir` where the last deaths are written if no keeper lives to tell the store; None: nowhere
    `notices`        sentences for the log: values that the environment fixes or that need a restart to change
    """

    pool: PoolId
    specs: tuple[ChildSpec, ...]
    runtime_dir: Path
    state_dir: Path
    stop_timeout: float = 30.0
    merge_memory: bool = False
    socket_mode: int = 0o660
    status_listen: str = ""
    config_path: str | None = None
    count_sources: Mapping[str, str] = field(default_factory=dict)
    file_counts: Mapping[str, int] = field(default_factory=dict)
    departures_dir: Path | None = None
    notices: tuple[str, ...] = ()


Reread = Callable[[], Plan]
"""Reads and validates the configuration again; raises ConfigError with a sentence. The pool's identity is ignored."""
