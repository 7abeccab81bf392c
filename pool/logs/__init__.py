"""Events to lines. Code names an event and its fields; this folder decides how they look and where they go.

`log` works before `configure` too (a client program keeps its own loguru sinks). In a pool, `configure` is called once in
the parent and again in each child; after that a log call never raises, and in the parent it never waits.
loguru is the engine, loaded at the first line, so that jobs that use loguru themselves write to the same place.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pool.clock import monotonic_now
from pool.logs.limiter import Limiter

if TYPE_CHECKING:
    from pool.logs.sink import Sink
    from pool.settings import LogSection

LEVELS = {"TRACE": 5, "DEBUG": 10, "INFO": 20, "WARNING": 30, "ERROR": 40}


class Log:
    """`log.info("worker died", slot=3, signal=9)`: an event in plain words, and its facts as fields.

    A field `trace` is a text of several lines, shown below the line. Fields that are None are left out of text lines.
    `shows_debug` may be asked first where a line is made for every job.
    """

    def __init__(self) -> None:
        self._threshold, self.shows_debug = 0, True
        self._sink: Sink | None = None
        self._limiter = Limiter()

    def debug(self, event: str, /, **fields: Any) -> None:
        self._write("DEBUG", event, fields)

    def info(self, event: str, /, **fields: Any) -> None:
        self._write("INFO", event, fields)

    def warning(self, event: str, /, **fields: Any) -> None:
        self._write("WARNING", event, fields)

    def error(self, event: str, /, **fields: Any) -> None:
        self._write("ERROR", event, fields)

    def limited(self, key: str, event: str, /, *, level: str = "WARNING", every_s: float = 1.0, **fields: Any) -> None:
        """For trouble that repeats: at most one line per `key` in `every_s` seconds; the next one tells how many were kept back."""
        kept_back = self._limiter.admit(key, every_s, monotonic_now())
        if kept_back is not None:
            self._write(level, event, fields | ({"kept_back": kept_back} if kept_back else {}))

    def _write(self, level: str, event: str, fields: dict[str, Any]) -> None:
        if LEVELS[level] < self._threshold:
            return
        if self._sink is not None:
            self._sink.write(level, event, fields)
        else:
            _to_the_programs_own_sinks(level, event, fields)


log = Log()


def _to_the_programs_own_sinks(level: str, event: str, fields: dict[str, Any]) -> None:
    from loguru import logger

    from pool.logs.lines import field_texts

    logger.bind(**fields).log(level, event + field_texts(fields))


def configure(settings: "LogSection", *, pool: str, who: str, in_parent: bool) -> None:
    """Set level, form and place of this process's lines; call it again in each child and after a reload.

    ConfigError when the log file cannot be opened.
    """
    from pool.logs.sink import Sink

    sink = log._sink or Sink()
    sink.aim(settings, pool=pool, who=who, in_parent=in_parent)
    log._threshold, log._sink = LEVELS[settings.level], sink
    log.shows_debug = log._threshold <= LEVELS["DEBUG"]


@contextmanager
def bound(**fields: Any) -> Iterator[None]:
    """Inside, every line of this thread or task carries these fields: `with bound(job=…, type=…, attempt=1):`."""
    from loguru import logger

    with logger.contextualize(**fields):
        yield


def reopen() -> None:
    """SIGUSR1: open the log file again, after logrotate has moved it."""
    if log._sink is not None:
        log._sink.reopen()


def look_anew() -> None:
    """As `reopen`, from a signal handler: with the next line."""
    if log._sink is not None:
        log._sink.look_anew()


def close() -> None:
    """The parent's last act: lines still on their way to the log file are written."""
    if log._sink is not None:
        log._sink.close()


def descriptors() -> set[int]:
    """What a forked child must keep open until it has called `configure`."""
    return log._sink.descriptors() if log._sink is not None else set()


def dropped_lines() -> int:
    """How many lines of this process could not be written since it was configured."""
    return log._sink.dropped if log._sink is not None else 0
