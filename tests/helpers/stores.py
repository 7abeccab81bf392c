"""A store that a test may open as often as it likes, and processes that all open it.

`Place` names a fresh, empty store; `open_sqlite` opens a database wherever the test wants it; `together` runs a function
in many processes at once, released at one moment.
"""

import os
import pickle
import select
import signal
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pool.backends.contract import Backend
from pool.backends.opening import open_backend
from pool.backends.sqlite.backend import SqliteBackend

CHILD_SECONDS = 100


@dataclass
class Place:
    """Where a store is. `open` gives a new client each time; `close` closes all that this process opened."""

    kind: str
    url: str
    namespace: str = "default"
    opened: list[Backend] = field(default_factory=list)

    def open(self) -> Backend:
        store = open_backend(self.url, namespace=self.namespace)
        self.opened.append(store)
        return store

    def close(self) -> None:
        while self.opened:
            self.opened.pop().close()


_opened: list[SqliteBackend] = []


def open_sqlite(path: str, **options: Any) -> SqliteBackend:
    """A new client of the database at `path`, as `SqliteBackend` makes it. It stays until the test ends, and is closed
    then (`close_opened`): a test may open one for a single call."""
    store = SqliteBackend(path, **options)
    _opened.append(store)
    return store


def close_opened() -> None:
    """Close all that `open_sqlite` opened in this process."""
    while _opened:
        _opened.pop().close()


def together(count: int, work: Callable[[int], Any]) -> list[Any]:
    """What `work(0)` … `work(count - 1)` returned, each run in a process of its own and let go at the same moment."""
    gate_out, gate_in = os.pipe()
    children = [_start(work, number, gate_out, gate_in) for number in range(count)]
    os.close(gate_out)
    os.close(gate_in)  # the end of the pipe is the starting shot
    return [child.result() for child in children]


@dataclass
class Child:
    """A forked process whose result comes back through a pipe."""

    pid: int
    answer_fd: int

    def result(self) -> Any:
        """Its return value; AssertionError with its traceback when it raised or died."""
        raw = _read_all(self.answer_fd)
        os.close(self.answer_fd)
        _, status = os.waitpid(self.pid, 0)
        if not raw:
            raise AssertionError(f"process {self.pid} gave no answer, wait status {status:#x}")
        answer, error = pickle.loads(raw)
        if error:
            raise AssertionError(f"process {self.pid} raised:\n{error}")
        return answer


def in_child(work: Callable[[], Any]) -> Child:
    """Run `work` in a forked process that starts at once."""
    gate_out, gate_in = os.pipe()
    child = _start(lambda _: work(), 0, gate_out, gate_in)
    os.close(gate_out)
    os.close(gate_in)
    return child


def _start(work: Callable[[int], Any], number: int, gate_out: int, gate_in: int) -> Child:
    answer_out, answer_in = os.pipe()
    pid = os.fork()
    if pid:
        os.close(answer_in)
        return Child(pid, answer_out)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(CHILD_SECONDS)
    os.close(gate_in)
    os.close(answer_out)
    os.read(gate_out, 1)
    with os.fdopen(answer_in, "wb") as out:
        out.write(_answer(work, number))
    os._exit(0)


def _answer(work: Callable[[int], Any], number: int) -> bytes:
    try:
        return pickle.dumps((work(number), None))
    except BaseException:
        return pickle.dumps((None, traceback.format_exc()))


def _read_all(fd: int) -> bytes:
    parts = []
    while part := _read_within(fd, CHILD_SECONDS + 20):
        parts.append(part)
    return b"".join(parts)


def _read_within(fd: int, seconds: float) -> bytes:
    poll = select.poll()  # select() cannot take descriptors above 1,023
    poll.register(fd, select.POLLIN)
    return os.read(fd, 65_536) if poll.poll(seconds * 1000) else b""
