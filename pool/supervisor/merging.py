"""Whether the kernel may merge pages of ours that have the same contents (KSM): `[pool] merge_memory`.

Set for the parent alone: who is forked after that inherits it, and so do the programs that these execute.
"""

import ctypes
import errno
import os
import signal

from pool.logs import log

_PR_SET_MEMORY_MERGE, _PR_GET_MEMORY_MERGE = 67, 68
_prctl = ctypes.CDLL(None, use_errno=True).prctl
_prctl.argtypes = (ctypes.c_int, *[ctypes.c_ulong] * 4)


class Merging:
    """What the parent has asked of the kernel. What a unit asked before us (systemd's MemoryKSM) is left as it is."""

    def __init__(self) -> None:
        self._wanted = self._is_ours = False

    def want(self, wanted: bool) -> None:
        """Ask for it, or take it back, if that is a change; a kernel that refuses is told of in the log, once."""
        if wanted == self._wanted:
            return
        self._wanted = wanted
        if wanted and not is_merging():
            self._is_ours = _asked(True)
        elif not wanted and self._is_ours:
            self._is_ours = not _asked(False)


def is_merging() -> bool | None:
    """Whether this process lets its pages be merged; None when the kernel has no such thing."""
    answer = _prctl(_PR_GET_MEMORY_MERGE, 0, 0, 0, 0)
    return None if answer < 0 else bool(answer)


def _asked(merge: bool) -> bool:
    # Taking it back copies what was merged, for some 10 ms, and any signal would break that off.
    blocked_before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        number = 0 if _prctl(_PR_SET_MEMORY_MERGE, int(merge), 0, 0, 0) == 0 else ctypes.get_errno()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked_before)
    if number:
        log.warning(_sentence(merge, number))
    return not number


def _sentence(merge: bool, number: int) -> str:
    if not merge:
        return (
            f"[pool] merge_memory is off, but the kernel goes on merging ({os.strerror(number)}); start jobpool again"
        )
    if number == errno.EINVAL:
        return "[pool] merge_memory: this kernel cannot merge memory (Linux 6.4 with CONFIG_KSM can); set it to false"
    return f"[pool] merge_memory: the kernel refused to merge memory ({os.strerror(number)}); set it to false"
