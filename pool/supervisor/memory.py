"""How big a worker is and what follows from it. The parent reads only `statm`: a worker says how much of its rss does not
count in pss or uss, and that part hardly changes while a job runs, so that growth shows in rss.
"""

import os
from enum import Enum, auto
from pathlib import Path

from pool.board.record import Process
from pool.seat import ChildSpec, MemoryMetric, MemoryRule
from pool.supervisor import budget
from pool.supervisor.children import Children

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


def size_of(rss: int, process: Process, rule: MemoryRule, shared: int) -> int:
    """Bytes in the rule's metric, 0 = unknown; pss and uss are rss less the `shared` bytes that do not count in them."""
    if rule.metric == "rss":
        return rss
    return max(0, rss - shared) if process.rss_bytes else 0


def shared_bytes(rss: int, process: Process, known: int) -> int:
    """What rss has more than the worker's own figure; never more than known before, so that growth is seen, not excused."""
    if not process.rss_bytes:
        return known
    more = max(0, rss - process.rss_bytes)
    return more if known < 0 else min(known, more)


def exact_bytes(pid: int, rule: MemoryRule) -> int:
    """Walked through by the kernel, 0 = unknown. Danger: it waits while the process changes its map, so that only one
    that stands still, stopped by us, may be asked.
    """
    rss = rss_bytes(pid)
    return rss if rule.metric == "rss" else min(rss, rollup_bytes(pid, rule.metric) or rss)


def rollup_bytes(pid: int, metric: MemoryMetric) -> int:
    """pss, or uss as the private pages; 0 where /proc hides it."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    except OSError:
        return 0
    wanted = {"pss": ("Pss",), "uss": ("Private_Clean", "Private_Dirty"), "rss": ("Rss",)}[metric]
    sizes = {name: int(rest.split()[0]) for name, _, rest in (line.partition(":") for line in lines)}
    return sum(sizes.get(name, 0) for name in wanted) * 1024


def judge(size: int, rule: MemoryRule, *, runs_user_code: bool) -> Size:
    """A worker without a job is never killed for its size: it can be replaced at no cost."""
    if rule.kill and size > rule.kill:
        return Size.ABOVE_KILL if runs_user_code else Size.ABOVE_LIMIT
    return Size.ABOVE_LIMIT if rule.limit and size > rule.limit else Size.FINE


def ceiling_of(spec: ChildSpec) -> int:
    """The most that one worker may come to: bytes, 0 = no ceiling."""
    return spec.memory.kill or spec.memory.limit


def promised_bytes(children: Children) -> int:
    """What all wanted workers need when each is at its ceiling."""
    return sum(group.wanted * ceiling_of(group.spec) for group in children.groups.values())


def memory_document(children: Children) -> dict[str, object]:
    """For /status. `used_bytes`: all our processes by their groups' metrics (rss counts shared pages once per process)."""
    allowed = budget.allowance()
    sizes = [child.memory_bytes or rss_bytes(child.pid) for child in children.living()]
    return {
        "used_bytes": sum(sizes) + rss_bytes(os.getpid()),
        "ceilings_bytes": promised_bytes(children),
        "limit_bytes": allowed and allowed.limit_bytes,
        "limit_by": allowed and allowed.by,
        "left_bytes": allowed and allowed.left_bytes,
    }


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
