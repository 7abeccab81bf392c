"""Ctrl-Z in the middle of a transaction must not leave the store locked behind a stopped terminal."""

import os
import signal
import threading

from pool.cli.store import Unstoppable


class Slow:
    """A store whose call is met by the terminal's stop signal."""

    def __init__(self) -> None:
        self.held: set[int] = set()

    def write(self) -> str:
        self.held = set(signal.pthread_sigmask(signal.SIG_BLOCK, ()))
        return "written"


def test_the_stop_signal_waits_until_the_call_is_over() -> None:
    slow = Slow()
    assert Unstoppable(slow).write() == "written"
    assert signal.SIGTSTP in slow.held
    assert signal.SIGTSTP not in signal.pthread_sigmask(signal.SIG_BLOCK, ())


def test_it_arrives_afterwards() -> None:
    arrived = threading.Event()
    before = signal.signal(signal.SIGTSTP, lambda *_: arrived.set())

    class Stopped:
        def write(self) -> bool:
            os.kill(os.getpid(), signal.SIGTSTP)
            return arrived.is_set()

    try:
        assert Unstoppable(Stopped()).write() is False
        assert arrived.is_set()
    finally:
        signal.signal(signal.SIGTSTP, before)
