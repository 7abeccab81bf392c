"""Processes that a worker left behind outside its process group (they called setsid), found and ended as far as possible.

How: the parent is a child subreaper, so every descendant whose own parent has ended becomes a child of ours. While a
worker still lives (stopped, before an ordered kill) its descendants are those whose chain of parents leads to it. Once it
is dead its strays are those below us, outside the living children, that carry the worker's mark in the environment they
were executed with. Best effort: a stray that neither hangs below the worker when it is killed nor was executed with the
mark is not recognised. A worker that leaves in order keeps what it started on purpose.
"""

import os
import signal
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from pool.supervisor.fork import MARK_VARIABLE


@dataclass(frozen=True, slots=True)
class Kin:
    """A process that cannot be mistaken for a later one with the same pid."""

    pid: int
    parent_pid: int
    start_ticks: int


def process_table() -> dict[int, Kin]:
    """Every process of this pid namespace that we may see; empty when /proc cannot be read."""
    try:
        entries = list(Path("/proc").iterdir())
    except OSError:  # no descriptor is left
        return {}
    pids = (int(entry.name) for entry in entries if entry.name.isdigit())
    return {kin.pid: kin for pid in pids if (kin := _kin(pid)) is not None}


def below(root_pid: int, table: dict[int, Kin], without: Iterable[int] = ()) -> list[Kin]:
    """The descendants of `root_pid`, leaving out the branches that begin at a pid of `without`."""
    children: dict[int, list[Kin]] = {}
    for kin in table.values():
        children.setdefault(kin.parent_pid, []).append(kin)
    left_out, found, branches = set(without), [], [root_pid]
    while branches:
        next_ones = [kin for kin in children.get(branches.pop(), ()) if kin.pid not in left_out]
        found += next_ones
        branches += [kin.pid for kin in next_ones]
    return found


def strays_of(workers: Iterable[str], our_pid: int, living: Iterable[int]) -> list[Kin]:
    """What dead workers (their identities as text) left below us. Reads all of /proc only when there are strangers."""
    marks, known = {f"{MARK_VARIABLE}={worker}".encode() for worker in workers}, set(living)
    if not marks or set(_direct_children(our_pid)) <= known:
        return []
    return [kin for kin in below(our_pid, process_table(), known) if marks.intersection(_environment(kin.pid))]


def kill_kin(kin: Iterable[Kin]) -> int:
    """SIGKILL to each that is still the process we meant; how many were."""
    return sum(_kill_if_same(one) for one in kin)


def _kill_if_same(kin: Kin) -> bool:
    try:
        pidfd = os.pidfd_open(kin.pid)
    except OSError:
        return False
    try:
        now = _kin(kin.pid)
        if now is None or now.start_ticks != kin.start_ticks:
            return False
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)
    except OSError:
        return False
    finally:
        os.close(pidfd)
    return True


def _kin(pid: int) -> Kin | None:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else Kin(pid, int(fields[1]), int(fields[19]))


def _direct_children(pid: int) -> Iterator[int]:
    try:
        yield from map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
    except OSError:  # a kernel without CONFIG_PROC_CHILDREN
        yield from (kin.pid for kin in process_table().values() if kin.parent_pid == pid)


def _environment(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []
