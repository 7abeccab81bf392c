"""Times and durations as callers write them, to seconds. A time without a zone has no meaning here and is refused."""

import math
from datetime import datetime, timedelta

from pool.errors import InvalidJob

LATEST = 253_402_300_799.0  # 9999-12-31T23:59:59Z, the last one that can be printed
HUGE = 10**18
MAX_SPAN_S = 100 * 366 * 86_400.0

When = datetime | str | int | float
Span = timedelta | int | float


def parse_time(value: When, field: str = "run_at") -> float:
    """Wall seconds from an aware datetime, RFC 3339 text with Z or an offset, or epoch seconds; InvalidJob otherwise."""
    if isinstance(value, datetime):
        return _in_range(_seconds_of(value, field), value, field)
    if isinstance(value, str) and not _is_number(value):
        return _in_range(_seconds_of(_parsed(value, field), field), value, field)
    return _in_range(_number(value, field), value, field)


def parse_span(value: Span, field: str) -> float:
    """Seconds from a number or a timedelta, from 0 to a century; InvalidJob otherwise."""
    seconds = value.total_seconds() if isinstance(value, timedelta) else _number(value, field)
    if not 0 <= seconds <= MAX_SPAN_S:
        raise InvalidJob(f"{field} {value!r} is out of range: use seconds from 0 to {MAX_SPAN_S:.0f}")
    return seconds


def _seconds_of(moment: datetime, field: str) -> float:
    if moment.utcoffset() is None:
        raise InvalidJob(
            f"{field} {moment.isoformat()} has no time zone, so it could be hours off: "
            f"write {moment.isoformat()}Z for UTC or add an offset such as +02:00 (in Python: tzinfo)"
        )
    return moment.timestamp()


def _parsed(text: str, field: str) -> datetime:
    stripped = text.strip()
    try:
        if len(stripped) <= len("2026-01-31"):
            raise ValueError("a date without a time")
        return datetime.fromisoformat(stripped.upper())
    except ValueError:
        raise InvalidJob(
            f"{field} {text!r} is not a time: use RFC 3339, such as 2026-01-31T18:30:00Z or 2026-01-31T19:30:00+01:00"
        ) from None


def _in_range(seconds: float, value: object, field: str) -> float:
    if 0 <= seconds <= LATEST:
        return seconds
    hint = "; epoch times are in seconds, this looks like milliseconds" if seconds > LATEST else ""
    raise InvalidJob(f"{field} {value!r} is out of range: use a time from 1970 to 9999{hint}")


def _number(value: object, field: str) -> float:
    if isinstance(value, str) and _is_number(value):
        value = float(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidJob(f"{field} {value!r} is a {type(value).__name__}, not a number of seconds or a time")
    if isinstance(value, float) and not math.isfinite(value):
        raise InvalidJob(f"{field} {value!r} is not a finite number")
    return float(min(max(value, -HUGE), HUGE))  # an int of any size, but not of any float's


def _is_number(text: str) -> bool:
    return (
        text.strip().replace(".", "", 1).isdecimal()
        and text.isascii()
        and not (len(text.strip()) == 8 and "." not in text)
    )
