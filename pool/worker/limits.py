"""When a worker has had enough: jobs, age, memory. Each with jitter, so that a pool never leaves all at once."""

import os
import random
import resource
from collections.abc import Callable
from pathlib import Path

from pool.board.record import Exit
from pool.clock import monotonic_now
from pool.seat import MemoryMetric
from pool.settings import WorkerKeys
from pool.worker.boot import BootFailed

JITTER_SHARE = 0.1
SOONEST_LOOK_S = 0.02  # short jobs need no look each
PAGE_BYTES = resource.getpagesize()


class Limits:
    """Asked after each job and in each idle turn."""

    def __init__(self, settings: WorkerKeys) -> None:
        self._max_jobs = settings.max_jobs - _share(settings.max_jobs)
        lifetime = settings.max_age * (1 - JITTER_SHARE * random.random())
        self._leave_at = monotonic_now() + lifetime if settings.max_age else float("inf")
        self.memory = MemoryWatch(settings.memory_metric, settings.memory_check_seconds)
        self.memory_limit = settings.memory_limit
        self._look_at = 0.0  # not before that has the size or the age to be looked at again

    def refuse_ceiling_below(self, size: int) -> None:
        """BootFailed when a fresh worker is above its ceiling already: it would be replaced after every job."""
        if self.memory_limit and size > self.memory_limit:
            raise BootFailed(
                f"memory_limit is {self.memory_limit:,} bytes, but a fresh worker with your modules has {size:,} already: "
                "raise memory_limit, or set memory_metric to pss or uss"
            )

    def reached(self, jobs: Callable[[], int]) -> Exit | None:
        """The limit that is reached, if one is. `jobs`: how many have ended here so far."""
        if self._max_jobs and jobs() >= self._max_jobs:
            return Exit.MAX_JOBS
        now = monotonic_now()
        if now < self._look_at:
            return None
        if now >= self._leave_at:
            return Exit.MAX_AGE
        size = self.memory.size(now)
        if self.memory_limit and size > self.memory_limit:
            return Exit.MEMORY
        self._look_at = min(self._leave_at, self.memory.next_look)
        return None


class MemoryWatch:
    """This process's size in bytes by the group's metric. rss is cheap; pss and uss cost the kernel a walk."""

    def __init__(self, metric: MemoryMetric, check_seconds: float) -> None:
        self._metric = metric
        self._every = SOONEST_LOOK_S if metric == "rss" else check_seconds
        self.next_look = 0.0
        self.last = 0  # as last looked at

    def size(self, now: float) -> int:
        """The size, as last looked at a moment ago at most (pss, uss: `memory_check_seconds`)."""
        if now >= self.next_look:
            self.next_look = now + self._every
            self.last = rss_bytes() if self._metric == "rss" else _rollup_bytes(self._metric)
        return self.last


def rss_bytes() -> int:
    """Resident pages; 0 where /proc hides it."""
    try:
        fd = os.open("/proc/self/statm", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return 0
    try:
        return int(os.read(fd, 128).split()[1]) * PAGE_BYTES
    finally:
        os.close(fd)


def _rollup_bytes(metric: MemoryMetric) -> int:
    """pss, or uss as the private pages; 0 where /proc hides it."""
    try:
        lines = Path("/proc/self/smaps_rollup").read_text().splitlines()[1:]
    except OSError:
        return 0
    wanted = ("Pss",) if metric == "pss" else ("Private_Clean", "Private_Dirty")
    sizes = {name: int(rest.split()[0]) for name, _, rest in (line.partition(":") for line in lines)}
    return sum(sizes.get(name, 0) for name in wanted) * 1024


def _share(jobs: int) -> int:
    """Up to a tenth of the jobs."""
    return random.randint(0, most) if (most := int(jobs * JITTER_SHARE)) else 0
