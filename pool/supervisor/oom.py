"""Whether the kernel killed for want of memory: said only when the cgroup's own counter rose, never guessed."""

from pathlib import Path


class OomCounter:
    """The `oom_kill` counter of our cgroup (v2); without one, nothing is ever blamed on memory."""

    def __init__(self) -> None:
        self._file = _events_file()
        self._last = self._read()

    def rose(self) -> bool:
        """Whether it rose since the last question."""
        before, self._last = self._last, self._read()
        return self._last > before

    def _read(self) -> int:
        if self._file is None:
            return 0
        try:
            lines = self._file.read_text().splitlines()
        except OSError:
            return 0
        return next((int(line.split()[1]) for line in lines if line.startswith("oom_kill ")), 0)


def _cgroup_dir() -> Path | None:
    try:
        entries = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return None
    ours = next((entry[3:] for entry in entries if entry.startswith("0::")), None)
    return None if ours is None else Path("/sys/fs/cgroup") / ours.lstrip("/")


def _events_file() -> Path | None:
    folder = _cgroup_dir()
    file = folder / "memory.events" if folder is not None else None
    return file if file is not None and file.exists() else None


def memory_max_bytes() -> int | None:
    """Our cgroup's limit, or None where there is none to read."""
    folder = _cgroup_dir()
    try:
        text = (folder / "memory.max").read_text().strip() if folder is not None else "max"
    except OSError:
        return None
    return None if text == "max" else int(text)
