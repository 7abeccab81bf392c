"""Waiting for file descriptors, however high their numbers (`select` refuses those above 1,023)."""

import select
from collections.abc import Iterable


def readable(fds: Iterable[int], seconds: float) -> list[int]:
    """Those that can be read now, or that have ended; waits at most `seconds` for the first. A pidfd is readable once
    its process has ended."""
    poll = select.poll()
    for fd in fds:
        poll.register(fd, select.POLLIN)
    return [fd for fd, _ in poll.poll(max(0.0, seconds) * 1000)]
