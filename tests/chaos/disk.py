"""A small file system for the store, which can be filled to the last byte. Needs the right to mount; without it there is
none, and the run says so."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

FILLER = "filler"
MEGABYTES = 256


@contextmanager
def small_disk(folder: Path) -> Iterator[Path | None]:
    """The folder with a file system of its own, or None where nobody may mount one (the folder is there all the same)."""
    folder.mkdir(parents=True)
    words = ["mount", "-t", "tmpfs", "-o", f"size={MEGABYTES}m", "tmpfs", str(folder)]
    if subprocess.run(words, capture_output=True, check=False).returncode:
        print("no right to mount a small disk: nothing will happen in the place of a full one", flush=True)
        yield None
        return
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@contextmanager
def filled(disk: Path, *, spare_bytes: int = 0) -> Iterator[None]:
    """Only so many bytes are free, until the block ends; somebody may need them sooner."""
    filler = disk / FILLER
    try:
        with filler.open("wb") as file:
            for size in (2**20, 4096):
                _grow(file.fileno(), size)
            os.ftruncate(file.fileno(), max(0, os.fstat(file.fileno()).st_size - spare_bytes))
        yield
    finally:
        filler.unlink(missing_ok=True)


def _grow(fd: int, step: int) -> None:
    """As far as it goes."""
    end = os.fstat(fd).st_size
    while True:
        try:
            os.posix_fallocate(fd, end, step)
        except OSError:
            return
        end += step
