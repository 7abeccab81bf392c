"""How big a worker is and what follows from it. The parent reads only `statm`; pss and uss the worker measures itself."""

import os
from enum import Enum, auto

from pool.board.record import Process
from pool.seat import MemoryRule

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class Size(Enum):
    """What a size means under a rule."""

    FINE = auto()
    ABOVE_LIMIT = auto()  # replace it, then let it finish its job and leave
    ABOVE_KILL = auto()  # kill it in mid-job


def rss_bytes(pid: int) -> int:
    """Resident bytes; 0 when the process is gone."""
    try:
        fd = os.open(f"/proc/{pid}/statm", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return 0
    try:
        return int(os.read(fd, 128).split()[1]) * _PAGE_BYTES
    except (OSError, IndexError):  # it ended between the two
        return 0
    finally:
        os.close(fd)


def size_of(pid: int, process: Process, rule: MemoryRule) -> int:
    """Bytes in the rule's metric; 0 = unknown."""
    return rss_bytes(pid) if rule.metric == "rss" else process.rss_bytes


def judge(size: int, rule: MemoryRule, *, runs_user_code: bool) -> Size:
    """A worker without a job is never killed for its size: it can be replaced at no cost."""
    if rule.kill and size > rule.kill:
        return Size.ABOVE_KILL if runs_user_code else Size.ABOVE_LIMIT
    return Size.ABOVE_LIMIT if rule.limit and size > rule.limit else Size.FINE


def ceiling_below_fresh(fresh: int, rule: MemoryRule) -> str:
    """The sentence for a ceiling that every new worker is above at once; empty when there is none."""
    lowest = min((ceiling for ceiling in (rule.limit, rule.kill) if ceiling), default=0)
    if not lowest or fresh <= lowest:
        return ""
    name = "memory_limit" if lowest == rule.limit else "memory_kill"
    return (
        f"{name} is {lowest:,} bytes, but a fresh worker already has {fresh:,}: "
        "it would be replaced for ever, so the ceiling is not applied; raise it"
    )
