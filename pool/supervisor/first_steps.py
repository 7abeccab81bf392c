"""What `start` does before anything else: keep early signals for the supervisor, and fill the standard descriptors."""

import gc
import os
import signal
import sys

from pool.supervisor.signals import HEEDED


def take_first_steps() -> None:
    """Once, at the very start of the process."""
    gc.disable()  # until the supervisor has moved in: what is imported stays, and looking at it again and again takes a tenth
    hold_back_signals()
    fill_standard_descriptors()


def hold_back_signals() -> None:
    """A signal that comes before the supervisor listens is kept for it (see `Post.open`), so that a stop is a stop."""
    signal.pthread_sigmask(signal.SIG_BLOCK, set(HEEDED) - {signal.SIGCHLD})


def fill_standard_descriptors() -> None:
    """Started with `2>&-`, the next pipe would become standard error, and every child would write into it."""
    for fd in (0, 1, 2):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number, which is this one
    for name, fd, mode in (("stdin", 0, "r"), ("stdout", 1, "w"), ("stderr", 2, "w")):
        if getattr(sys, name) is None:  # as Python leaves it when it finds the descriptor closed
            setattr(sys, name, os.fdopen(fd, mode, closefd=False))
