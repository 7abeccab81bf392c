"""The only reader of time. A wall clock and a steady clock never share a name.

wall       seconds since 1970 (UTC); what people mean by a time; may be stepped
monotonic  seconds since boot, standing still in suspend; for timeouts and deadlines of processes
boottime   seconds since boot, counting suspend; for leases, which must not outlive a sleeping machine
"""

import time
from datetime import UTC, datetime


def wall_now() -> float:
    """Seconds since 1970, UTC."""
    return time.time()


def monotonic_now() -> float:
    """Seconds on CLOCK_MONOTONIC; the same in every process of this machine."""
    return time.monotonic()


def boottime_now() -> float:
    """Seconds on CLOCK_BOOTTIME; the same in every process of this machine."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


_FIRST_SECOND, _LAST_SECOND = -62_135_596_800.0, 253_402_300_799.0


def as_rfc3339(wall: float | None) -> str | None:
    """A wall time in UTC with milliseconds and Z, as the API prints it; None stays None, the calendar ends in 9999."""
    if wall is None:
        return None
    return (
        datetime.fromtimestamp(min(max(wall, _FIRST_SECOND), _LAST_SECOND), UTC)
        .isoformat(timespec="milliseconds")
        .replace("+00:00", "Z")
    )
