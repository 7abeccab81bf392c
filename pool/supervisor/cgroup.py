"""Our memory cgroup as the kernel shows it, version 2 or 1: its limits up to the root, its use, its out-of-memory kills."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path("/")
"""Where `proc` and `sys` are looked for; tests bring their own."""

# Version 1 says "no limit" with the largest multiple of a page; no machine has so much.
_NO_LIMIT_FROM = 1 << 62


@dataclass(frozen=True, slots=True)
class Kind:
    """The names of one version's files."""

    limit: str
    use: str
    reclaimable: str
    events: str


V2 = Kind("memory.max", "memory.current", "inactive_file", "memory.events")
V1 = Kind("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file", "memory.oom_control")


@dataclass(frozen=True, slots=True)
class Cgroup:
    """One folder of the hierarchy."""

    folder: Path
    kind: Kind

    def limit_bytes(self) -> int | None:
        """None: no limit here."""
        text = _text(self.folder / self.kind.limit)
        limit = int(text) if text.isdigit() else _NO_LIMIT_FROM
        return limit if limit < _NO_LIMIT_FROM else None

    def used_bytes(self) -> int | None:
        """Without what the kernel can drop at any time: cached files that nobody uses."""
        text = _text(self.folder / self.kind.use)
        if not text.isdigit():
            return None
        return max(0, int(text) - number_in(self.folder / "memory.stat", self.kind.reclaimable))


def own_cgroups() -> list[Cgroup]:
    """The one we are in, then each above it; empty where there is no memory controller."""
    for line in _text(ROOT / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if "memory" in controllers.split(","):
            return list(_chain(ROOT / "sys/fs/cgroup/memory", path, V1))
    for line in _text(ROOT / "proc/self/cgroup").splitlines():
        if line.startswith("0::"):
            return list(_chain(ROOT / "sys/fs/cgroup", line[3:], V2))
    return []


def open_events(group: Cgroup) -> int:
    """A descriptor of the file that counts kills for want of memory; -1 where there is none."""
    try:
        return os.open(group.folder / group.kind.events, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return -1


def oom_kills(events: bytes) -> int:
    """How often the kernel killed in there for want of memory; it only rises."""
    rest = events.rpartition(b"oom_kill ")[2]
    return int(rest.split()[0]) if rest and rest.split()[0].isdigit() else 0


def number_in(file: Path, name: str) -> int:
    """The number after a name, in a file with one such pair a line; 0 where there is none."""
    pairs = (line.split() for line in _text(file).splitlines())
    return next((int(pair[1]) for pair in pairs if len(pair) >= 2 and pair[0].rstrip(":") == name), 0)


def _chain(mount: Path, path: str, kind: Kind) -> Iterator[Cgroup]:
    """A container often sees its own folder as the mount's root, under a path that is not there."""
    folder = mount / path.lstrip("/")
    while folder != mount:
        if (folder / kind.use).exists():
            yield Cgroup(folder, kind)
        folder = folder.parent
    if (mount / kind.use).exists() or (mount / kind.limit).exists():
        yield Cgroup(mount, kind)


def _text(file: Path) -> str:
    try:
        return file.read_text().strip()
    except OSError:
        return ""
