"""Who is who: a pool, a worker process of it, a lane of that worker. Never reused, whatever pids do."""

import os
import re
import secrets
import socket
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path

NAME_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


@dataclass(frozen=True, slots=True)
class PoolId:
    """One life of one supervisor: `incarnation` is drawn anew at each start."""

    name: str
    host: str
    incarnation: str

    def __str__(self) -> str:
        return f"{self.name}@{self.host}#{self.incarnation}"


@dataclass(frozen=True, slots=True)
class WorkerId:
    """One process: the next one in the same slot has the next generation."""

    pool: PoolId
    slot: int
    generation: int

    def __str__(self) -> str:
        return f"{self.pool}/{self.slot}.{self.generation}"


@dataclass(frozen=True, slots=True)
class LaneId:
    """One job at a time: a sync worker has lane 0 only, an async one has as many as its concurrency."""

    worker: WorkerId
    lane: int = 0

    def __str__(self) -> str:
        return f"{self.worker}/{self.lane}"


_LANE_TEXT = re.compile(
    r"(?P<name>[^@]+)@(?P<host>[^#]+)#(?P<inc>[^/]+)/(?P<slot>\d+)\.(?P<gen>\d+)(?:/(?P<lane>\d+))?"
)


def parse_lane(text: str) -> LaneId:
    """The reverse of `str(LaneId)` (and of `str(WorkerId)`, as its lane 0); ValueError for anything else."""
    found = _LANE_TEXT.fullmatch(text)
    if found is None:
        raise ValueError(f"not a lane: {text!r}")
    pool = PoolId(found["name"], found["host"], found["inc"])
    return LaneId(WorkerId(pool, int(found["slot"]), int(found["gen"])), int(found["lane"] or 0))


def new_pool_id(name: str) -> PoolId:
    """The identity of a supervisor that starts now on this host."""
    return PoolId(name, host_name(), secrets.token_hex(6))


def host_name() -> str:
    """This host's name, reduced to the characters that identities allow."""
    return re.sub(r"[^A-Za-z0-9_.-]", "-", socket.gethostname())[:64] or "localhost"


@dataclass(frozen=True, slots=True)
class ProcessMark:
    """A process that cannot be mistaken for a later one with the same pid.

    `start_ticks` is field 22 of /proc/PID/stat; `boot_id` and `pid_namespace` say where the pid means anything.
    """

    pid: int
    start_ticks: int
    boot_id: str
    pid_namespace: int

    def is_comparable(self) -> bool:
        """Whether this process's boot and pid namespace are ours, so that its pid can be judged from here."""
        return self.boot_id == boot_id() and self.pid_namespace == pid_namespace()

    def is_alive(self) -> bool:
        """Whether the process still runs. Unreadable or not comparable counts as alive; a zombie is dead."""
        if not self.is_comparable():
            return True
        try:
            fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        except FileNotFoundError:
            return False
        except ProcessLookupError:
            return False
        except OSError:
            return True
        return fields[0] not in "ZX" and int(fields[19]) == self.start_ticks


def process_mark(pid: int | None = None) -> ProcessMark:
    """The mark of a living process (default: this one); FileNotFoundError when there is none."""
    pid = pid or os.getpid()
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return ProcessMark(pid, int(fields[19]), boot_id(), pid_namespace())


@cache
def boot_id() -> str:
    """The kernel's id of this boot; empty where /proc hides it."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def pid_namespace() -> int:
    """The inode of our pid namespace; 0 where /proc hides it."""
    return _namespace_of(os.getpid())


@lru_cache(maxsize=1)
def _namespace_of(own_pid: int) -> int:
    """A process never leaves its namespace; a child that was forked into another has another pid there."""
    try:
        return Path("/proc/self/ns/pid").stat().st_ino
    except OSError:
        return 0
