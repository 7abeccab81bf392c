"""Reading the pool's log file, also while it is rotated: the last lines of one job or worker, and what comes after."""

import json
import os
import re
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from pool.cli.failures import Refused

LOOKED_BACK_BYTES = 4 * 1024 * 1024
CONTINUED = "    | "

Belongs = Callable[[str], bool]


def of_job(job_id: str) -> Belongs:
    """Lines that bear the job's id."""
    return lambda line: f"job={job_id}" in line or f'"job": "{job_id}"' in line


def of_slot(slot: int) -> Belongs:
    """Lines of the worker in this slot, of whatever group."""
    text = re.compile(rf"\b[A-Z]+ +\S+/{slot}: ")
    return lambda line: bool(text.search(line)) or _who(line).endswith(f"/{slot}")


def _who(line: str) -> str:
    if not line.startswith("{"):
        return ""
    try:
        document: Any = json.loads(line)
    except ValueError:
        return ""
    return str(document.get("who", "")) if isinstance(document, dict) else ""


class LogFile:
    """`last` first, then `fresh` again and again. Refused when the file cannot be read."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._file = self._open()
        self._rest, self._is_ours = "", False

    def last(self, count: int, belongs: Belongs) -> list[str]:
        """The last lines that belong, from the last few megabytes; afterwards the file is read to its end."""
        size = os.fstat(self._file.fileno()).st_size
        if size > LOOKED_BACK_BYTES:
            self._file.seek(size - LOOKED_BACK_BYTES)
            self._file.readline()
        return list(deque(self._read(belongs), count))

    def fresh(self, belongs: Belongs) -> Iterator[str]:
        """What was written since; the rest of a file that was rotated away comes before its successor."""
        yield from self._read(belongs)
        if self._is_replaced():
            self._file.close()
            self._file, self._rest = self._open(), ""
            yield from self._read(belongs)

    def _read(self, belongs: Belongs) -> Iterator[str]:
        """Whole lines; those that continue one (a traceback) go with it."""
        *lines, self._rest = (self._rest + self._file.read().decode("utf-8", "backslashreplace")).split("\n")
        for line in lines:
            if not line.startswith(CONTINUED):
                self._is_ours = belongs(line)
            if self._is_ours:
                yield line

    def _open(self) -> Any:
        try:
            return open(self._path, "rb")  # kept open for as long as it is followed
        except OSError as error:
            raise Refused(f"the log file {self._path} cannot be read: {error.strerror}") from None

    def _is_replaced(self) -> bool:
        now = os.fstat(self._file.fileno())
        try:
            there = os.stat(self._path)  # noqa: PTH116
        except OSError:
            return False
        return (there.st_ino, there.st_dev) != (now.st_ino, now.st_dev) or there.st_size < self._file.tell()
