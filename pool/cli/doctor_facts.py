"""What `doctor` looks at before it judges: the unit, the running pool, the store, the machine. Reads only.

What cannot be read is None or empty, and the rules say nothing of it. No fact here is an opinion.
"""

import ctypes
import os
import resource
import shutil
import sqlite3
import stat
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from pool.backends.contract import PoolState, QueueState
from pool.backends.opening import open_backend, sqlite_path
from pool.cli import control
from pool.clock import wall_now
from pool.config import Loaded, runtime_dir, socket_path
from pool.errors import JobpoolError
from pool.supervisor.merging import is_merging
from pool.version import VERSION

UNIT_FOLDERS = (
    "/etc/systemd/system",
    "/run/systemd/system",
    "/usr/local/lib/systemd/system",
    "/usr/lib/systemd/system",
)
KSMD = Path("/sys/kernel/mm/ksm/run")
TIME_ERROR = 5  # adjtimex(2): the clock is not synchronised
ADJTIMEX_BYTES = 512

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class FileFacts:
    """A file or folder: `mode` is the permission bits, `is_usable` whether this user may read and write it."""

    path: str
    mode: int
    uid: int
    is_usable: bool
    size: int = 0


@dataclass(frozen=True, slots=True)
class Merging:
    """What the kernel says of merging memory (KSM): that it can, that its thread works, that the supervisor lets it, and how
    many bytes of the pool's processes are in merged pages, which saves at most `saved`. None: it does not say.
    """

    is_able: bool
    is_working: bool | None = None
    is_let: bool | None = None
    merged: int = 0
    saved: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Everything the rules may know."""

    loaded: Loaded
    unit_name: str = ""
    unit: Mapping[str, str] | None = None  # [Service] with drop-ins; the last word on each key
    status: Mapping[str, Any] | None = None  # /status of the running pool
    pool_trouble: str = ""
    limits: Mapping[str, int] = field(default_factory=dict)  # open files and processes that the pool may have
    kind: str = ""
    store_trouble: str = ""
    store_warnings: tuple[str, ...] = ()
    queues: tuple[QueueState, ...] = ()
    pools: tuple[PoolState, ...] = ()
    clock_ahead_s: float | None = None  # of the store's clock
    server: Mapping[str, Any] = field(default_factory=dict)  # Redis: INFO and CONFIG
    database: FileFacts | None = None
    folder: FileFacts | None = None
    side_files: tuple[FileFacts, ...] = ()
    file_system: str = ""
    free_bytes: int | None = None
    socket: FileFacts | None = None
    runtime: FileFacts | None = None
    config_file: FileFacts | None = None
    is_clock_synchronised: bool | None = None
    memory_bytes: int | None = None
    merging: Merging | None = None
    sqlite_version: tuple[int, int, int] = sqlite3.sqlite_version_info[:3]
    own_version: str = ""
    uid: int = 0


def gather(loaded: Loaded, unit: str) -> Facts:
    """Look at everything once."""
    return Facts(
        loaded=loaded,
        own_version=VERSION,
        uid=os.geteuid(),
        is_clock_synchronised=_is_clock_synchronised(),
        memory_bytes=os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        config_file=look_at(loaded.path) if loaded.path else None,
        runtime=look_at(runtime_dir(loaded.config)),
        socket=look_at(socket_path(loaded.config)),
        unit_name=Path(unit).name,
        unit=read_unit(unit),
        **_running_pool(loaded),
        **_store(loaded),
    )


def look_at(path: str | Path) -> FileFacts | None:
    """None when it is not there or may not be seen."""
    try:
        found = Path(path).stat()
    except OSError:
        return None
    usable = os.access(path, os.R_OK | os.W_OK | (os.X_OK if stat.S_ISDIR(found.st_mode) else 0))
    return FileFacts(str(path), stat.S_IMODE(found.st_mode), found.st_uid, usable, found.st_size)


# ---------------------------------------------------------------- the unit


def read_unit(name: str) -> dict[str, str] | None:
    """[Service] of a unit by its name, or by a path to its file; None when there is none."""
    text = Path(name).read_text() if "/" in name and Path(name).is_file() else _unit_text(name)
    return service_section(text) if text else None


def _unit_text(name: str) -> str:
    """As systemd reads it, with drop-ins; from the files where there is no systemctl."""
    if shutil.which("systemctl"):
        done = subprocess.run(["systemctl", "cat", name], capture_output=True, text=True, check=False, timeout=10)
        if done.returncode == 0:
            return done.stdout
    found = next((path for folder in UNIT_FOLDERS if (path := Path(folder) / name).is_file()), None)
    drop_ins = [file for folder in UNIT_FOLDERS for file in sorted(Path(folder, f"{name}.d").glob("*.conf"))]
    return "\n".join(path.read_text() for path in ([found, *drop_ins] if found else []))


def service_section(text: str) -> dict[str, str]:
    """Key → last value said; lists are kept as their last line, which is all that the rules ask for."""
    section, values = "", dict[str, str]()
    for line in text.splitlines():
        line = line.strip()
        if line.startswith("["):
            section = line.strip("[]")
        elif section == "Service" and "=" in line and not line.startswith(("#", ";")):
            key, _, value = line.partition("=")
            values[key.strip()] = value.strip()
    return values


# ---------------------------------------------------------------- the running pool


def _running_pool(loaded: Loaded) -> dict[str, Any]:
    try:
        status = control.ask(socket_path(loaded.config), "GET", "/status")[1]
    except control.PoolUnreachable as error:
        nofile = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        return {"pool_trouble": str(error), "limits": {"open files": nofile}, "merging": merging_of([])}
    supervisor, others = status["pool"]["pid"], [status["keeper"] or {}, *status["workers"]]
    pids = [supervisor, *(pid for other in others if (pid := other.get("pid")))]
    return {"status": status, "limits": _limits_of(supervisor), "merging": merging_of(pids)}


def _limits_of(pid: int) -> dict[str, int]:
    """The hard limits, by the names of /proc/PID/limits in lower case without `max`."""
    try:
        lines = Path(f"/proc/{pid}/limits").read_text().splitlines()[1:]
    except OSError:
        return {}
    rows = {line[:26].strip().lower().removeprefix("max "): line[26:].split() for line in lines}
    return {name: int(row[1]) for name, row in rows.items() if len(row) > 1 and row[1].isdigit()}


def merging_of(pids: Sequence[int]) -> Merging:
    """Of these processes, the first of which is the supervisor."""
    working = _or_none(lambda: KSMD.read_text().strip() == "1")
    stats = [_merging_stat(pid) for pid in pids]
    let = stats[0].get("ksm_merge_any") if stats else None
    return Merging(
        is_able=is_merging() is not None,
        is_working=working,
        is_let=None if let is None else let == "yes",
        merged=sum(int(stat.get("ksm_merging_pages", 0)) for stat in stats) * os.sysconf("SC_PAGE_SIZE"),
        saved=max(0, sum(int(stat.get("ksm_process_profit", 0)) for stat in stats)),
    )


def _merging_stat(pid: int) -> dict[str, str]:
    """By name; empty where the kernel has no such file, or the process is no more or a stranger's."""
    text = _or_none(Path(f"/proc/{pid}/ksm_stat").read_text) or ""
    return {name.rstrip(":"): value for name, value in map(str.split, text.splitlines())}


# ---------------------------------------------------------------- the store


def _store(loaded: Loaded) -> dict[str, Any]:
    url, namespace = loaded.config.backend.url, loaded.config.backend.namespace
    files = _files(url, loaded) if url.startswith("sqlite") else {}
    if url.startswith("sqlite") and files["database"] is None:
        return {**files, "kind": "sqlite", "store_trouble": "it is not there yet; the first start makes it"}
    backend = open_backend(url, namespace=namespace, create=False)
    try:
        backend.ping()
        return {
            **files,
            "kind": backend.kind,
            "queues": tuple(backend.queues()),
            "pools": tuple(backend.pools()),
            "clock_ahead_s": backend.server_now() - wall_now(),
            "store_warnings": tuple(getattr(backend, "startup_warnings", list)()),
            "server": backend.statistics().backend,
        }
    except JobpoolError as error:
        return {**files, "kind": backend.kind, "store_trouble": str(error)}
    finally:
        backend.close()


def _files(url: str, loaded: Loaded) -> dict[str, Any]:
    path = Path(sqlite_path(url)).absolute()
    sides = (look_at(f"{path}{suffix}") for suffix in ("-wal", "-shm"))
    return {
        "database": look_at(path),
        "folder": look_at(path.parent),
        "side_files": tuple(side for side in sides if side),
        "file_system": _or_none(lambda: file_system_of(path.parent)) or "",
        "free_bytes": _or_none(lambda: shutil.disk_usage(path.parent).free),
    }


def file_system_of(folder: Path) -> str:
    """The type of the mount that has this folder: of all mount points above it, the nearest."""
    best, kind = "", ""
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        fields, _, rest = line.partition(" - ")
        point = fields.split()[4].encode().decode("unicode_escape")
        if folder.is_relative_to(point) and len(point) >= len(best):
            best, kind = point, rest.split()[0]
    return kind


# ---------------------------------------------------------------- the machine


def _is_clock_synchronised() -> bool | None:
    """By the kernel's own flag; reading it needs no rights."""
    reader = getattr(ctypes.CDLL(None, use_errno=True), "adjtimex", None)
    state = reader(ctypes.create_string_buffer(ADJTIMEX_BYTES)) if reader else -1
    return None if state < 0 else state != TIME_ERROR


def _or_none(read: Callable[[], T]) -> T | None:
    try:
        return read()
    except OSError:
        return None
