"""Small files that must outlive a power cut: there whole or not at all, and for nobody but their owner and group.

A umask can make their rights narrower, never wider: what is kept may hold a job's result.
"""

import os
from pathlib import Path

FOLDER_MODE, FILE_MODE = 0o750, 0o640


def make_folder(folder: Path) -> None:
    """With all above it that are missing, each closed to strangers (`mkdir(parents=True)` gives those its own rights)."""
    missing = [folder, *folder.parents]
    for each in reversed(missing[: next(n for n, path in enumerate(missing) if path.exists())]):
        each.mkdir(mode=FOLDER_MODE, exist_ok=True)


def write_whole(path: Path, text: str, *, durably: bool = True) -> None:
    """Written under a name of its own, then put in place; when this returns it is on disk. OSError when the disk refuses."""
    scratch = path.with_name(f".{path.name}.{os.getpid()}.part")
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
    with os.fdopen(os.open(scratch, flags, FILE_MODE), "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        if durably:
            os.fsync(file.fileno())
    scratch.replace(path)
    if durably:
        _sync(path.parent)


def _sync(folder: Path) -> None:
    """So that the name is on disk too."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
