"""The job types of the application's code, in a file for the keeper: described once, by the first worker that has this code.

Describing takes 3 MB of memory that no other worker shares and 20 ms; the others wait and take the file as it is.
"""

import contextlib
import fcntl
import hashlib
import itertools
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from pool.durable import FILE_MODE, write_whole

TYPES_FILE = "types.json"
MADE_FROM_FILE = "types.made-from"


def publish(folder: Path, made_from: str, describe: Callable[[], str]) -> None:
    """See that the file says what `describe` would. It is not asked where the file was `made_from` the same.

    Whatever `describe` raises leaves the file as it was, so that the next worker finds the same fault; OSError when
    the folder refuses.
    """
    label = made_from.encode()
    with _held(folder / MADE_FROM_FILE) as fd:
        if os.read(fd, 2 * len(label)) == label and (folder / TYPES_FILE).exists():
            return
        text = describe()
        os.ftruncate(fd, 0)  # first, so that an interruption leaves no file under a wrong label
        write_whole(folder / TYPES_FILE, text, durably=False)
        os.pwrite(fd, label, 0)


def code_of(edition: str, known: int) -> str:
    """Names the code by the files of all modules but the `known` first, as this reading (`edition`) of the configuration has it."""
    facts = hashlib.sha256(edition.encode())
    for name in itertools.islice(reversed(sys.modules), len(sys.modules) - known):
        facts.update(f"{name} {_file_of(name)}\n".encode(errors="replace"))
    return facts.hexdigest()


def _file_of(name: str) -> str:
    path = getattr(sys.modules[name], "__file__", None)
    if not isinstance(path, str):
        return ""
    try:
        found = os.stat(path)  # noqa: PTH116  # many of them
    except OSError:
        return path
    return f"{path} {found.st_dev} {found.st_ino} {found.st_size} {found.st_mtime_ns}"


@contextlib.contextmanager
def _held(path: Path) -> Iterator[int]:
    """Open, and locked against the other workers."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield fd
    finally:
        os.close(fd)
