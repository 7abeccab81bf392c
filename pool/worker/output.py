"""What a job prints: to the log with its id, type and attempt, and the end of it kept with the attempt.

`sys.stdout` and `sys.stderr` are replaced once per worker; a thread that a job started is heard too. What is written
to the descriptors 1 and 2 directly (by C code, by programs) goes where they lead, unheard.
"""

import io
import logging
import sys
import threading
from collections.abc import Callable
from typing import Any, TextIO

from pool.cleaning import clean
from pool.jobs.job import KEPT_OUTPUT_BYTES, Claim
from pool.logs import log
from pool.worker.secrecy import Secrets

MAX_LOGGED_BYTES = 1024 * 1024
MAX_LINE = 16 * 1024


class Tail:
    """The end of a text of any length."""

    __slots__ = ("_parts", "_size")

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._size = 0

    def add(self, text: str) -> None:
        self._parts.append(text[-KEPT_OUTPUT_BYTES:])
        self._size += len(self._parts[-1])
        if self._size > 4 * KEPT_OUTPUT_BYTES or len(self._parts) > 2000:
            self._parts = ["".join(self._parts)[-KEPT_OUTPUT_BYTES:]]
            self._size = len(self._parts[0])

    def text(self) -> str:
        """At most 16 KiB of UTF-8 that any store takes, cleaned, cut at the start."""
        raw = "".join(self._parts)[-KEPT_OUTPUT_BYTES:].encode("utf-8", "backslashreplace").replace(b"\0", b"\\x00")
        cleaned = clean(raw.decode("utf-8")).encode("utf-8")
        return cleaned[-KEPT_OUTPUT_BYTES:].decode("utf-8", "ignore")


class Transcript:
    """What one attempt printed. Each of its lines in the log names the job."""

    __slots__ = ("_claim", "_pending", "_tail", "_written", "secrets")

    def __init__(self, claim: Claim) -> None:
        self._claim = claim
        self.secrets: Secrets | None = None  # what must not be read in it
        self._tail: Tail | None = None
        self._pending: dict[str, str] = {}
        self._written = 0

    def write(self, stream: str, text: str) -> None:
        if self._tail is None:
            self._tail = Tail()
        if self.secrets is not None:
            text = self.secrets.mask(text)
        self._tail.add(text)
        room = MAX_LOGGED_BYTES - self._written
        if room >= 0:
            self._log_lines(stream, text[:room])
            self._written += len(text)
            if len(text) > room:
                log.warning("the job prints too much; only the end is kept from here on", **self._facts)

    def close(self) -> str:
        """The end of what was printed; unfinished lines are logged."""
        if self._tail is None:
            return ""
        for stream, rest in self._pending.items():
            if rest:
                log.info(rest, stream=stream, **self._facts)
        self._pending.clear()
        text = self._tail.text()
        return text if self.secrets is None else self.secrets.mask(text)

    @property
    def _facts(self) -> dict[str, Any]:
        return {"job": self._claim.job_id, "type": self._claim.type, "attempt": self._claim.attempt}

    def _log_lines(self, stream: str, text: str) -> None:
        """Whole lines now, the rest when it is whole (or too long to wait for)."""
        *lines, rest = (self._pending.get(stream, "") + text).split("\n")
        while len(rest) > MAX_LINE:
            lines.append(rest[:MAX_LINE])
            rest = rest[MAX_LINE:]
        self._pending[stream] = rest
        for line in lines:
            log.info(line[:MAX_LINE], stream=stream, **self._facts)


class Stage:
    """Who is speaking: finds the transcript of the job whose code is running, by default the only one there is.

    `after_write` is called when a stream is done with a text: the place for an interrupt that had to wait.
    """

    def __init__(self) -> None:
        self.sole: Transcript | None = None
        self.find: Callable[[], Transcript | None] = lambda: self.sole
        self.after_write: Callable[[], None] = lambda: None

    def transcript(self) -> Transcript | None:
        return self.find()


class JobStream(io.TextIOBase):
    """Stands in for sys.stdout or sys.stderr. Outside a job it is the stream it replaced."""

    encoding = "utf-8"
    errors = "backslashreplace"

    def __init__(self, name: str, stage: Stage, original: TextIO) -> None:
        self.name, self._stage, self._original = name, stage, original
        self._inside = threading.local()
        self.buffer = _Bytes(self)

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        transcript = self._stage.transcript()
        if transcript is None or getattr(self._inside, "writing", False):
            return self._original.write(text)
        self._inside.writing = True  # a log sink that prints must not come back here
        try:
            transcript.write(self.name, text)
        finally:
            self._inside.writing = False
        self._stage.after_write()
        return len(text)

    def flush(self) -> None:
        if self._stage.transcript() is None:
            self._original.flush()

    def fileno(self) -> int:
        return self._original.fileno()

    def isatty(self) -> bool:
        return False

    def close(self) -> None:
        """A job may not close what the next one needs."""


class _Bytes(io.RawIOBase):
    """`sys.stdout.buffer`."""

    def __init__(self, stream: JobStream) -> None:
        self._stream = stream

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        raw = bytes(data)
        self._stream.write(raw.decode("utf-8", "backslashreplace"))
        return len(raw)

    def fileno(self) -> int:
        return self._stream.fileno()

    def close(self) -> None:
        pass


class LogHandler(logging.Handler):
    """stdlib logging of a job: to its transcript. Outside a job: a line of ours."""

    def __init__(self, stage: Stage) -> None:
        super().__init__()
        self._stage = stage

    def emit(self, record: logging.LogRecord) -> None:
        try:
            text = self.format(record)
        except Exception:
            self.handleError(record)
            return
        transcript = self._stage.transcript()
        if transcript is not None:
            transcript.write("logging", text + "\n")
            self._stage.after_write()  # logging frees its locks on the way out
        elif record.levelno >= logging.WARNING:
            log.warning(text, logger=record.name)
        else:
            log.info(text, logger=record.name)


class Ears:
    """The replaced streams of this process."""

    def __init__(self, stage: Stage) -> None:
        self._out = JobStream("stdout", stage, sys.__stdout__ or io.StringIO())
        self._err = JobStream("stderr", stage, sys.__stderr__ or io.StringIO())
        self._handler = LogHandler(stage)

    def listen(self) -> None:
        """Before the app's modules are imported, so that handlers they make write to us."""
        self.put_back()
        self._handler.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))

    def hear_logging(self) -> None:
        """After the app's modules are imported: only where they have not set up logging themselves."""
        root = logging.getLogger()
        if not root.handlers:
            root.addHandler(self._handler)
            if root.level == logging.WARNING:
                root.setLevel(logging.INFO)

    def put_back(self) -> None:
        """After each job: it may have put its own streams in place."""
        if sys.stdout is not self._out or sys.stderr is not self._err:
            sys.stdout, sys.stderr = self._out, self._err
