"""Signals become letters in a mailbox; the loop reads them when it turns. Nothing else ever happens in a handler."""

import os
import signal
from collections import deque
from dataclasses import dataclass
from types import FrameType

from pool.clock import monotonic_now

HEEDED = (
    signal.SIGHUP,
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGTTIN,
    signal.SIGTTOU,
    signal.SIGCHLD,
)
# One of these is as good as many; of the others each counts.
_COALESCED = frozenset(set(HEEDED) - {signal.SIGTTIN, signal.SIGTTOU, signal.SIGINT})


@dataclass(frozen=True, slots=True)
class Letter:
    """A signal that came; `at` is monotonic."""

    signal: int
    at: float


class Mailbox:
    """The handlers post, the loop takes. The wake-up pipe only wakes: if it is full, nothing is lost."""

    def __init__(self) -> None:
        self._letters: deque[Letter] = deque()

    def post(self, signum: int, at: float) -> None:
        """Keep a letter."""
        self._letters.append(Letter(signum, at))

    def take_all(self) -> list[Letter]:
        """Everything that came, in order; repeated signals that mean the same twice come once."""
        taken: list[Letter] = []
        seen: set[int] = set()
        while self._letters:
            letter = self._letters.popleft()
            if letter.signal not in seen:
                taken.append(letter)
            if letter.signal in _COALESCED:
                seen.add(letter.signal)
        return taken


class Post:
    """The parent's handlers and its wake-up pipe. `wake_read` is readable when a letter came."""

    def __init__(self) -> None:
        self.mailbox = Mailbox()
        self.wake_read, self._wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._before: dict[int, object] = {}
        self._mask_before: set[int] = set()
        self.was_nohup = False

    def open(self) -> None:
        """Take over the signals; those that were blocked while we started come now."""
        self.was_nohup = signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
        signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)
        for signum in HEEDED:
            self._before[signum] = signal.signal(signum, self._handle)
        self._before[signal.SIGPIPE] = signal.signal(signal.SIGPIPE, signal.SIG_IGN)
        self._mask_before = set(signal.pthread_sigmask(signal.SIG_UNBLOCK, HEEDED))

    def close(self) -> None:
        """Give the signals back to whoever had them; blocked first, where they were.

        So a signal that is repeated while the interpreter winds up does not kill a supervisor that has ended in order.
        """
        signal.pthread_sigmask(signal.SIG_SETMASK, self._mask_before)
        signal.set_wakeup_fd(-1)
        for signum, handler in self._before.items():
            signal.signal(signum, handler if handler is not None else signal.SIG_DFL)  # type: ignore[arg-type]
        os.close(self.wake_read)
        os.close(self._wake_write)

    def _handle(self, signum: int, frame: FrameType | None) -> None:
        self.mailbox.post(signum, monotonic_now())


def terminal_exists() -> bool:
    """Whether this process has a controlling terminal that still exists."""
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY | os.O_CLOEXEC))
    except OSError:
        return False
    return True
