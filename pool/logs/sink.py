"""The one place where this process's lines go."""

import atexit
import contextlib
import os
import threading
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from pool.clock import wall_now
from pool.errors import ConfigError
from pool.logs.lines import Entry, Shape, line_of
from pool.logs.outputs import LogFile, Output, StandardError
from pool.logs.relay import Relay, carry_lines
from pool.settings import LogSection

# A worker waits this long for a slow reader before it drops lines; parent and keeper do not wait.
WORKER_PATIENCE_S = 1.0


class Sink:
    """Takes this process's lines, from any thread."""

    def __init__(self) -> None:
        self._shape = Shape("text", "", "")
        self._output: Output = StandardError()
        self._is_the_parents = False
        self._relay: Relay | None = None
        self._lock = threading.RLock()
        self._is_writing = False
        self._reported = self._dropped_before = 0
        os.register_at_fork(after_in_child=self._after_fork)

    def aim(self, settings: LogSection, *, pool: str, who: str, in_parent: bool) -> None:
        """Point this process's lines to where the settings say."""
        self._is_the_parents = in_parent
        self._replace_output(self._opened(settings, who, in_parent))
        to_stderr = isinstance(self._output, StandardError)
        self._shape = Shape(
            settings.format,
            pool,
            who,
            coloured=to_stderr and settings.format == "text" and is_colourful_terminal(),
            under_journald=to_stderr and is_stderr_journald(),
        )
        if settings.file and who == "keeper" and not in_parent:
            self._carry_the_parents_lines()

    def _opened(self, settings: LogSection, who: str, in_parent: bool) -> Output:
        if not settings.file:
            return StandardError(patience_s=0.0 if in_parent or who == "keeper" else WORKER_PATIENCE_S)
        try:
            if in_parent:
                return self._parent_relay(settings.file)
            return LogFile(settings.file)
        except OSError as error:
            raise ConfigError(f"cannot open the log file {settings.file} ([log] file): {error.strerror}") from None

    def _parent_relay(self, path: str) -> Relay:
        if self._relay is None or self._relay.path != path:
            self._relay = Relay(path)
            atexit.register(self._relay.close)
        return self._relay

    def _carry_the_parents_lines(self) -> None:
        if self._relay is not None:
            with contextlib.suppress(OSError):  # the parent is gone already
                carry_lines(os.getppid(), self._relay.read_fd, self._put_whole, self.reopen)

    def _put_whole(self, lines: bytes) -> None:
        with self._lock:
            self._output.put(lines)

    def _replace_output(self, output: Output) -> None:
        with self._lock:
            old, self._output = self._output, output
            if old is not output:
                self._dropped_before += old.dropped
                old.close()

    def write(self, level: str, event: str, fields: Mapping[str, Any]) -> None:
        """A line; never raises, whatever is wrong with the fields."""
        with contextlib.suppress(Exception):
            at = datetime.fromtimestamp(wall_now()).astimezone()
            trace = str(fields.get("trace") or "")
            rest = {key: value for key, value in fields.items() if key != "trace"}
            self._put(line_of(Entry(at, level, event, rest, trace), self._shape), at)

    def _put(self, line: bytes, at: datetime) -> None:
        with self._lock:
            if self._is_writing:  # by a signal handler that interrupted a line: it would tear it
                return
            try:
                self._is_writing = True
                if self._output.put(line):
                    self._report_dropped(at)
            finally:
                self._is_writing = False

    def _report_dropped(self, at: datetime) -> None:
        lost = self.dropped - self._reported
        if lost:
            self._reported = self.dropped
            self._output.put(line_of(Entry(at, "WARNING", "log lines dropped", {"count": lost}), self._shape))

    @property
    def dropped(self) -> int:
        """Lines that could not be written."""
        return self._dropped_before + self._output.dropped

    def reopen(self) -> None:
        """Open a log file again."""
        with self._lock:
            self._output.reopen()

    def look_anew(self) -> None:
        """In a signal handler, which may have interrupted a line: the next one sees whether the file was moved."""
        self._output.look_anew()

    def descriptors(self) -> set[int]:
        """Of the output in use."""
        return self._output.descriptors()

    def close(self) -> None:
        """Bring to the file what waits in the parent's pipe."""
        if self._relay is not None:
            self._relay.close()

    def _after_fork(self) -> None:
        """A lock held by another thread would stay locked; and the parent's descriptors are about to be closed by number."""
        self._lock, self._is_writing = threading.RLock(), False
        if self._is_the_parents:
            self._output = self._output.let_go()


def is_stderr_journald() -> bool:
    """Whether standard error is the stream that systemd connected to the journal ($JOURNAL_STREAM = device:inode)."""
    try:
        status = os.fstat(2)
    except OSError:
        return False
    return os.environ.get("JOURNAL_STREAM", "") == f"{status.st_dev}:{status.st_ino}"


def is_colourful_terminal() -> bool:
    """Whether standard error is a terminal whose user did not refuse colours (https://no-color.org)."""
    return os.isatty(2) and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
