"""One record to one line: text for people, JSON for machines. Pure."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from pool.cleaning import mask_secrets

LONGEST_LINE = 16 * 1024
OWN_KEYS = frozenset({"time", "level", "pool", "who", "event", "trace"})
_COLOURS = {"TRACE": "2", "DEBUG": "2", "INFO": "32", "WARNING": "33", "ERROR": "31", "CRITICAL": "1;31"}
# Codes that move the cursor or start a new line would let a job's text pose as another line.
_UNPRINTABLE = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160))} | {
    9: "\\t",
    10: "\\n",
    13: "\\r",
    0x2028: "\\u2028",
    0x2029: "\\u2029",
}


@dataclass(frozen=True, slots=True)
class Entry:
    """What happened: `trace` is a text of several lines (a traceback, a stack), shown below the line."""

    at: datetime
    level: str
    event: str
    fields: Mapping[str, Any]
    trace: str = ""


@dataclass(frozen=True, slots=True)
class Shape:
    """How lines look. `under_journald`: each begins with its priority, and journald adds the time itself."""

    format: Literal["text", "json"]
    pool: str
    who: str
    coloured: bool = False
    under_journald: bool = False


def line_of(entry: Entry, shape: Shape) -> bytes:
    """The whole line (with its continuation), ending in a newline, at most 16 KiB or a little over."""
    text = _json(entry, shape) if shape.format == "json" else _text(entry, shape)
    if shape.under_journald:
        prefix = f"<{priority_of(entry.level)}>"
        text = "\n".join(prefix + line for line in text.split("\n"))
    return text.encode("utf-8", "backslashreplace") + b"\n"


def priority_of(level: str) -> int:
    """The syslog number of a level, as journald reads it at the start of a line."""
    return {"TRACE": 7, "DEBUG": 7, "INFO": 6, "SUCCESS": 5, "WARNING": 4, "ERROR": 3, "CRITICAL": 2}.get(level, 6)


def field_texts(fields: Mapping[str, Any]) -> str:
    """The fields as ` key=value …`; values with spaces are quoted."""
    return "".join(f" {key}={_value_text(value)}" for key, value in fields.items() if value is not None)


def _text(entry: Entry, shape: Shape) -> str:
    head = (
        []
        if shape.under_journald
        else [entry.at.strftime("%Y-%m-%d %H:%M:%S.") + f"{entry.at.microsecond // 1000:03d}"]
    )
    level = f"{entry.level:<7}"
    if shape.coloured:
        level = f"\033[{_COLOURS.get(entry.level, '0')}m{level}\033[0m"
    event = mask_secrets(entry.event).translate(_UNPRINTABLE)
    line = _cut(" ".join([*head, level, f"{shape.who}:", event]) + field_texts(entry.fields))
    return line + "".join(f"\n    | {row.translate(_UNPRINTABLE)}" for row in _trace_rows(entry.trace))


def _trace_rows(trace: str) -> list[str]:
    return _cut(mask_secrets(trace)).splitlines()


def _json(entry: Entry, shape: Shape) -> str:
    own = {
        "time": entry.at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "level": entry.level.lower(),
        "pool": shape.pool,
        "who": shape.who,
        "event": _cut(mask_secrets(entry.event)),
    }
    fields = {(key + "_" if key in OWN_KEYS else key): _json_value(value) for key, value in entry.fields.items()}
    trace = {"trace": _cut(mask_secrets(entry.trace))} if entry.trace else {}
    return json.dumps(own | fields | trace, ensure_ascii=False)


def _json_value(value: Any) -> Any:
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if abs(value) < float("inf") else str(value)
    if isinstance(value, list | tuple):
        return [_json_value(item) for item in value[:100]]
    return _cut(mask_secrets(str(value)))


def _value_text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, list | tuple):
        value = ",".join(map(str, value[:100])) or "none"
    text = _cut(mask_secrets(str(value))).translate(_UNPRINTABLE)
    needs_quotes = text == "" or " " in text or '"' in text
    return '"' + text.replace('"', '\\"') + '"' if needs_quotes else text


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_LINE else text[:LONGEST_LINE] + "…"
