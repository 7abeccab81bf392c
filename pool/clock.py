"""The only reader of time. A wall clock and a steady clock never share a name.

wall       seconds since 1970 (UTC); what people mean by a time; may be stepped
monotonic  seconds since boot, standing still in suspend; for timeouts and deadlines of processes
boottime   seconds since boot, counting suspend; for leases, which must not outlive a sleeping machine
"""

import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import lru_cache, partial

# Not functions of ours: a worker reads a clock ten times a job, and a call of Python costs more than the reading.
wall_now: Callable[[], float] = time.time
monotonic_now: Callable[[], float] = time.monotonic  # the same in every process of this machine
boottime_now: Callable[[], float] = partial(time.clock_gettime, time.CLOCK_BOOTTIME)  # this too


_FIRST_SECOND, _LAST_SECOND = -62_135_596_800.0, 253_402_300_799.0


@lru_cache(maxsize=64)  # a job that was just stored shows one time thrice
def as_rfc3339(wall: float | None) -> str | None:
    """A wall time in UTC with milliseconds and Z, as the API prints it; None stays None, the calendar ends in 9999."""
    if wall is None:
        return None
    return (
        datetime.fromtimestamp(min(max(wall, _FIRST_SECOND), _LAST_SECOND), UTC)
        .isoformat(timespec="milliseconds")
        .replace("+00:00", "Z")
    )
