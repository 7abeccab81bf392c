"""Signals of a worker: they set a flag and wake whoever sleeps; the loop decides."""

import _signal  # type: ignore[import-not-found]  # its functions make no enum members, which cost 1.5 µs a call, and pages
import contextlib
import fcntl
import os
import signal
from collections.abc import Callable
from types import FrameType

from pool import logs
from pool.descriptors import readable

Handler = Callable[[int, FrameType | None], None]
SMALLEST_PIPE = 1  # the kernel makes it a page; it makes others of 16, and to shrink one is always allowed
UNMOVED_BY = (signal.SIGINT, signal.SIGHUP, signal.SIGWINCH, signal.SIGPIPE)


class Mailbox:
    """`is_stopping` is set by SIGTERM and stays; `fd` is readable after any signal, until `empty`."""

    def __init__(self) -> None:
        self.is_stopping = False
        self._must_reopen_log = False
        self._handlers: dict[signal.Signals, Handler] = {}
        self._in_place: list[Handler] = []
        self._numbers: list[int] = []  # not members of an enum, which lie apart from each other
        self._open_pipe()

    def listen(self, on_stop: Callable[[], None], on_look: Handler) -> None:
        """SIGTERM: finish and leave. SIGURG, SIGALRM: look whether the job in hand must be interrupted."""

        def stop(number: int, frame: FrameType | None) -> None:
            self.is_stopping = True
            on_stop()

        def reopen(number: int, frame: FrameType | None) -> None:
            self._must_reopen_log = True
            logs.look_anew()

        self._handlers = {signal.SIGTERM: stop, signal.SIGURG: on_look, signal.SIGALRM: on_look, signal.SIGUSR1: reopen}
        # a handler and not SIG_IGN: an ignored signal would stay ignored in every program that a job starts
        self._handlers |= dict.fromkeys(UNMOVED_BY, _pass_over)
        self._in_place, self._numbers = list(self._handlers.values()), [*map(int, self._handlers)]
        self.repair()

    def obey_reopen(self) -> None:
        """SIGUSR1: the log file was moved. Not in the handler, which may have interrupted a line; a job's next line does it too."""
        if self._must_reopen_log:
            self._must_reopen_log = False
            logs.reopen()

    def repair(self) -> None:
        """Put our handlers back; jobs may have changed them."""
        for number, handler in self._handlers.items():
            if _signal.getsignal(number) is not handler:
                _signal.signal(number, handler)
        _signal.pthread_sigmask(_signal.SIG_UNBLOCK, self._handlers.keys())
        signal.set_wakeup_fd(self._write_fd, warn_on_full_buffer=False)

    def is_whole(self) -> bool:
        """Whether our handlers are in place; asked after every job, so it makes no system call but one."""
        if _signal.pthread_sigmask(_signal.SIG_BLOCK, ()):
            return False
        return self._in_place == [*map(_signal.getsignal, self._numbers)]

    def has_its_pipe(self) -> bool:
        """Whether `fd` still leads to it: no other is so small. A third of the price of `fstat`, which tells all of a file."""
        try:
            return fcntl.fcntl(self.fd, fcntl.F_GETPIPE_SZ) == self._pipe_bytes
        except OSError:
            return False

    def sleep(self, seconds: float) -> None:
        """Until a signal came, at most `seconds`."""
        readable([self.fd], seconds)
        self.empty()

    def empty(self) -> bool:
        """Whether there was anything."""
        had_mail = False
        with contextlib.suppress(BlockingIOError):
            while os.read(self.fd, 4096):
                had_mail = True
        return had_mail

    def reopen(self) -> None:
        """A new pipe: a job closed descriptors that were not its own."""
        self._open_pipe()
        self.repair()

    def _open_pipe(self) -> None:
        self.fd, self._write_fd = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._pipe_bytes = fcntl.fcntl(self.fd, fcntl.F_SETPIPE_SZ, SMALLEST_PIPE)


def _pass_over(number: int, frame: FrameType | None) -> None:
    pass


def behave_like_any_program() -> None:
    """In a child that a job forked: signals end it as they end any program."""
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGTERM, signal.SIGALRM, signal.SIGURG, signal.SIGUSR1, *UNMOVED_BY):
        signal.signal(number, signal.SIG_DFL)
