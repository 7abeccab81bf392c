"""A status socket that really listens, with answers a test can choose, in a loop on a thread."""

import selectors
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pool.clock import monotonic_now
from pool.supervisor.http import Reply
from pool.supervisor.status_socket import StatusSocket


class Answers:
    """A source of answers; commands are kept until the test replies."""

    def __init__(self) -> None:
        self.document: dict[str, Any] = {"pool": {"state": "ready"}}
        self.reasons: list[str] = []
        self.commands: list[tuple[str, dict[str, Any], Reply]] = []
        self.answers_at_once = True

    def state(self) -> str:
        return "ready"

    def status(self) -> dict[str, Any]:
        if "raise" in self.document:
            raise ZeroDivisionError("in status")
        return self.document

    def unready(self) -> list[str]:
        return self.reasons

    def metrics(self) -> bytes:
        return b"jobpool_up 1\n"

    def command(self, verb: str, options: dict[str, Any], reply: Reply) -> None:
        self.commands.append((verb, options, reply))
        if self.answers_at_once:
            reply(200, {"verb": verb, "options": options})


class Desk:
    """The loop on its thread. `skip(seconds)` lets time pass for the socket, `look_ahead(seconds)` for one turn; `at_rest()` runs a call between two turns."""

    def __init__(self, path: Path, mode: int, listen: str) -> None:
        self.answers, self.path = Answers(), path
        self.selector = selectors.PollSelector()
        self.socket = StatusSocket(path, mode, listen, self.answers)
        self.socket.register(self.selector)
        self._lock, self._stopping, self._skipped = threading.RLock(), threading.Event(), 0.0
        self.turns = 0
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._stopping.is_set():
            ready = self.selector.select(0.01)
            with self._lock:
                self.turns += 1
                for key, mask in ready:
                    key.data(mask)
                self.socket.tick(monotonic_now() + self._skipped)

    def skip(self, seconds: float) -> None:
        with self._lock:
            self._skipped += seconds

    def look_ahead(self, seconds: float) -> None:
        """One turn, as if so much time had passed: unlike after `skip`, who comes next has its own time."""
        with self._lock:
            self.socket.tick(monotonic_now() + seconds)

    def at_rest(self, call: Any) -> Any:
        with self._lock:
            return call()

    @property
    def tcp_port(self) -> int:
        tcp = self.socket._tcp
        assert tcp is not None
        return int(tcp.getsockname()[1])

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()
        self.socket.close()
        self.selector.close()


@contextmanager
def desk(directory: Path, *, mode: int = 0o660, listen: str = "", name: str = "jobpool.sock") -> Iterator[Desk]:
    """A listening status socket in `directory`."""
    running = Desk(directory / name, mode, listen)
    try:
        yield running
    finally:
        running.stop()
