"""Whether the kernel killed for want of memory: said only when the cgroup's own counter rose, never guessed."""

import os

from pool.clock import monotonic_now
from pool.supervisor import cgroup

# A kill that was counted longer ago hit something else: a subprocess of a job, a neighbour in our cgroup.
_RECENT_S = 3.0


class OomCounter:
    """The counter of our cgroup; without one, nothing is ever blamed on memory. Each kill explains one death."""

    def __init__(self) -> None:
        groups = cgroup.own_cgroups()
        self._fd = cgroup.open_events(groups[0]) if groups else -1  # kept open: it is read each second
        self._last = self._read()
        self._unexplained, self._seen_at = 0, 0.0

    def look(self) -> None:
        """To be called about once a second, so that an old kill is not taken for a new one."""
        before, self._last, now = self._last, self._read(), monotonic_now()
        if self._last > before:
            self._unexplained, self._seen_at = self._unexplained + self._last - before, now
        elif now - self._seen_at > _RECENT_S:
            self._unexplained = 0

    def explains_a_death(self) -> bool:
        """Whether the kernel has just killed, once more than it was asked here."""
        self.look()
        if not self._unexplained:
            return False
        self._unexplained -= 1
        return True

    def _read(self) -> int:
        if self._fd < 0:
            return 0
        try:
            return cgroup.oom_kills(os.pread(self._fd, 4096, 0))
        except OSError:  # the cgroup is gone
            return 0
