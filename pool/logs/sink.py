"""The one place where this process's lines go, behind loguru; ours and those of jobs that use loguru meet here."""

import atexit
import contextlib
import copy
import os
import threading
import traceback
from datetime import datetime
from typing import Any

from loguru import logger

from pool.errors import ConfigError
from pool.logs.lines import Entry, Shape, line_of
from pool.logs.outputs import LogFile, Output, StandardError
from pool.logs.relay import Relay, carry_lines
from pool.settings import LogSection

# A worker waits this long for a slow reader before it drops lines; parent and keeper do not wait.
WORKER_PATIENCE_S = 1.0


class Sink:
    """Takes records from two loguru loggers: our own, which user code cannot reconfigure, and the global one."""

    def __init__(self) -> None:
        logger.remove()
        self._own = copy.deepcopy(logger)  # loguru's recipe for independent loggers
        self._shape = Shape("text", "", "")
        self._output: Output = StandardError()
        self._is_the_parents = False
        self._relay: Relay | None = None
        self._handlers: list[tuple[Any, int]] = []
        self._level = ""
        self._lock = threading.RLock()
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
        if settings.level != self._level:  # a child keeps those it inherits: new ones take 1 MB of its own
            self._replace_handlers(settings.level)
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

    def _replace_handlers(self, level: str) -> None:
        for engine, handler in self._handlers:
            with contextlib.suppress(ValueError):  # user code has removed it
                engine.remove(handler)
        self._level = level
        self._handlers = [(engine, self._add_handler(engine, level)) for engine in (self._own, logger)]

    def _add_handler(self, engine: Any, level: str) -> int:
        return int(engine.add(self._take, level=level, format=_no_text, catch=False, backtrace=False, diagnose=False))

    def write(self, level: str, event: str, fields: dict[str, Any]) -> None:
        """A line of our own; never raises, whatever is wrong with the fields or with a log call inside a log call."""
        with contextlib.suppress(Exception):
            self._own.bind(**fields).log(level, event)

    def _take(self, message: Any) -> None:
        record = message.record
        fields = dict(record["extra"])
        trace = str(fields.pop("trace", "") or _traceback_of(record["exception"]))
        entry = Entry(record["time"], record["level"].name, record["message"], fields, trace)
        with self._lock:
            if self._output.put(line_of(entry, self._shape)):
                self._report_dropped(entry.at)

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
        self._lock = threading.RLock()
        if self._is_the_parents:
            self._output = self._output.let_go()


def _no_text(record: Any) -> str:
    return ""


def _traceback_of(exception: Any) -> str:
    if exception is None or exception.value is None:
        return ""
    return "".join(traceback.format_exception(exception.type, exception.value, exception.traceback)).rstrip()


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
