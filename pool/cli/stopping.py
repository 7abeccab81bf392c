"""Waiting for a pool to end, by its process and not by its answers."""

import os
import socket
import struct
from pathlib import Path

from pool.descriptors import readable

FALLBACK_POLL_S = 0.05
LOOK_AGAIN_S = 60.0
_CREDENTIALS = struct.Struct("3i")


def watch_supervisor(path: str) -> int | None:
    """A pidfd of the process that listens there; None where none listens, or it cannot be watched from here.

    The kernel names it in our own numbers: what a pool in a container calls its pid is another process outside.
    """
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(path)
            peer = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        pid = _CREDENTIALS.unpack(peer)[0]
        return os.pidfd_open(pid) if pid else None
    except OSError:
        return None


def wait_until_gone(path: str, watched: int | None) -> None:
    """Return when the supervisor's process has ended (or, where it cannot be watched, its socket is gone)."""
    if watched is not None:
        while not readable([watched], LOOK_AGAIN_S):
            pass
        os.close(watched)
        return
    while Path(path).exists():
        readable([], FALLBACK_POLL_S)
