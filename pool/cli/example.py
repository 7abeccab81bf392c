"""Writes config.example.toml from the models: `python -m pool.cli.example > config.example.toml`. A test keeps it equal."""

import json
import sys
import typing
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from pool.settings import Config

HEAD = """\
# Configuration of jobpool: every key, its default, and what it is for. All of it may be left out.
#
# Found at: --config FILE, else $JOBPOOL_CONFIG, else ./jobpool.toml, else /etc/jobpool/config.toml
# Stronger than the file: JOBPOOL_* in the environment (JOBPOOL_WORKERS__COUNT=8), and flags above all.
# Durations are seconds or "10m", sizes bytes or "512MB". Check a file with: jobpool check --config FILE
"""

# What stands for a default that depends on the machine, and for keys without one.
SAMPLES: dict[str, Any] = {
    "pool.name": "web-1",
    "workers.count": 8,
    "workers.count_min": 2,
    "workers.count_max": 16,
    "workers.target_wait": 10,
    "groups.name": "bulk",
    "groups.count": 2,
    "groups.count_min": 1,
    "groups.count_max": 4,
    "groups.target_wait": 60,
    "groups.stop_timeout": 30,
    "queues.name": "mail",
    "types.name": "thumbnail",
    "types.queue": "thumbnails",
    "schedule.name": "nightly",
    "schedule.type": "tasks.nightly_report",
    "schedule.cron": "30 3 * * *",
    "schedule.priority": "low",
    "commands.type": "shell.cleanup",
    "commands.argv": ["/usr/local/bin/cleanup", "--days", "{days}"],
    "tokens.name": "shop",
    "tokens.role": "producer",
    "tokens.sha256": "0" * 64,
    "alerts.on": "degraded",
    "alerts.command": ["/usr/local/bin/page-someone"],
    "alerts.above": 0.1,
}
_SIZES = frozenset({"memory_limit"})
_LONG_DURATIONS = frozenset({"completed", "failed", "idempotency"})
# One of two keys is enough, or all three or none: shown, but left out when a reader takes the block as it is.
_EITHER_OR = frozenset({"schedule.every", "alerts.url", "commands.cwd"})


def example() -> str:
    """The whole file."""
    return HEAD + "".join("\n" + "\n".join(_block(name, info)) + "\n" for name, info in Config.model_fields.items())


def _block(name: str, info: FieldInfo) -> Iterator[str]:
    model = _model_of(info)
    yield f"# {_sentence(info)}"
    if _is_repeated(info):
        yield f"# [[{name}]]"
        yield from (f"# {line}" for line in _lines(name, model, is_commented=True))
    else:
        yield f"[{name}]"
        yield from _lines(name, model, is_commented=False)


def _lines(section: str, model: type[BaseModel], *, is_commented: bool) -> Iterator[str]:
    """One line a key. What has no fixed default is a comment of its own, so that the file can be used as it is."""
    for name, info in sorted(model.model_fields.items(), key=lambda field: not field[1].is_required()):
        key, place = info.alias or name, f"{section}.{name}"
        has_default = info.default is not PydanticUndefined and info.default is not None
        is_sample = place in SAMPLES and not (is_commented and _is_wanted(place, info))
        value = SAMPLES.get(place, _default(info))
        if place in _EITHER_OR or (is_sample and not has_default) or value is None:
            yield f"# {key} = {_toml(name, value)}  # {_sentence(info)}"
        else:
            yield f"{key} = {_toml(name, value)}  # {_sentence(info)}"


def _is_wanted(place: str, info: FieldInfo) -> bool:
    """A sample that belongs to a block: required keys, and the one that makes the block mean something."""
    return info.is_required() or place in ("schedule.cron", "alerts.command", "groups.count")


def _default(info: FieldInfo) -> Any:
    value = info.get_default(call_default_factory=True)
    return value.model_dump() if isinstance(value, BaseModel) else value


def _toml(name: str, value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{k} = {_toml(k, v)}" for k, v in value.items()) + " }" if value else "{}"
    if name in _SIZES and value:
        return f'"{value // 10**6}MB"'
    if name in _LONG_DURATIONS and value:
        return f'"{value // 3600}h"' if value < 7 * 86_400 else f'"{value // 86_400}d"'
    is_whole = isinstance(value, float) and value.is_integer()
    return json.dumps(int(value) if is_whole else value, ensure_ascii=False)


def _sentence(info: FieldInfo) -> str:
    return info.description or ""


def _is_repeated(info: FieldInfo) -> bool:
    return typing.get_origin(info.annotation) is tuple


def _model_of(info: FieldInfo) -> type[BaseModel]:
    found = typing.get_args(info.annotation)[0] if _is_repeated(info) else info.annotation
    return typing.cast(type[BaseModel], found)


if __name__ == "__main__":
    sys.stdout.write(example())
