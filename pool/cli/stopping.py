"""Waiting for a pool to end, by its process and not by its answers."""

import os
import select
from pathlib import Path

FALLBACK_POLL_S = 0.05


def wait_until_gone(socket: str, pid: int | None) -> None:
    """Return when the supervisor's process has ended (or, where it cannot be watched, its socket is gone)."""
    try:
        watched = os.pidfd_open(pid) if pid else None
    except ProcessLookupError:
        return
    except OSError:
        watched = None
    if watched is not None:
        select.select([watched], [], [])
        os.close(watched)
        return
    while Path(socket).exists():
        select.select([], [], [], FALLBACK_POLL_S)
