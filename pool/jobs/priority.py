"""Priorities: any integer from 0 to 100, higher first; four of them have names."""

from enum import IntEnum

from pool.errors import InvalidJob

LOWEST, HIGHEST = 0, 100
POINTS_PER_AGEING = 10  # `ageing` is how long a job must wait to gain ten points


class Priority(IntEnum):
    """The named priorities."""

    LOW = 0
    MEDIUM = 10
    HIGH = 20
    CRITICAL = 30


def parse_priority(value: str | int) -> int:
    """A label (any case) or an integer 0..100, given as a number or digits; InvalidJob names the choices."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise _unknown(value)
    if isinstance(value, str):
        label = value.strip()
        if label.upper() in Priority.__members__:
            return int(Priority[label.upper()])
        if not (label.isascii() and label.isdigit()):
            raise _unknown(value)
        value = int(label[:9])
    if not LOWEST <= value <= HIGHEST:
        raise _unknown(value)
    return int(value)


def label_of(priority: int) -> str:
    """`high` for 20, `15` for 15: how a person reads a priority."""
    try:
        return Priority(priority).name.lower()
    except ValueError:
        return str(priority)


def _unknown(value: object) -> InvalidJob:
    labels = ", ".join(f"{p.name.lower()} = {p.value}" for p in Priority)
    return InvalidJob(f"unknown priority {value!r}: use {labels}, or an integer from {LOWEST} to {HIGHEST}")
