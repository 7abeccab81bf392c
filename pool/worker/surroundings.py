"""What surrounds a job in its process, and is put right after it: signals, streams, directory, umask, descriptors."""

import os
import sys
from pathlib import Path

from pool.identity import ProcessMark
from pool.logs import log
from pool.worker.context import sole
from pool.worker.mailbox import Mailbox, behave_like_any_program
from pool.worker.output import Ears, Stage

HIGHEST_FD = 4096


class Surroundings:
    """`is_damaged`: a job closed descriptors it had not opened; this process should be replaced soon."""

    def __init__(self) -> None:
        self.mailbox = Mailbox()
        self.stage = Stage()
        self.is_damaged = False
        self._ears = Ears(self.stage)
        self._abandoned: list[object] = []
        self._pid = os.getpid()

    def open(self) -> None:
        """Before the application's code is imported."""
        self._ears.put_back()
        os.register_at_fork(after_in_child=self._become_an_ordinary_process)

    def settle_in(self) -> None:
        """After it was imported: what it has set up is what each job shall find."""
        self._ears.hear_logging()
        self._folder = _working_directory()
        self._umask = os.umask(0o022)
        os.umask(self._umask)
        self._recursion_limit = sys.getrecursionlimit()

    def tidy_up(self) -> bool:
        """After each job. False: descriptors were closed, and all that was open must be opened anew."""
        is_whole = self.mailbox.has_its_pipe()
        if not is_whole:
            self._plug_holes()
        if not self.mailbox.is_whole():
            self.mailbox.repair()
        self._ears.put_back()
        os.umask(self._umask)
        try:  # as `_working_directory`, which would be one call more for each job
            is_at_home = os.getcwd() == self._folder  # noqa: PTH109
        except OSError:
            is_at_home = not self._folder
        if not is_at_home:
            self._go_home()
        if sys.getrecursionlimit() != self._recursion_limit:
            sys.setrecursionlimit(self._recursion_limit)
        return is_whole

    def is_orphan(self, parent: ProcessMark) -> bool:
        """Whether the supervisor is gone: whoever has adopted us is not it."""
        return os.getppid() != parent.pid

    def keep_alive(self, thing: object) -> None:
        """Never collect it: its end would close descriptors that mean something else now."""
        self._abandoned.append(thing)

    def _plug_holes(self) -> None:
        """So that no stale number (of the store, of the log) ever leads into a file opened later."""
        self.is_damaged = True
        highest = min(HIGHEST_FD, max(self.mailbox.fd + 64, _highest_open() + 1))
        while (fd := os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)) < highest:
            pass
        os.close(fd)
        self.mailbox.reopen()

    def _go_home(self) -> None:
        try:
            os.chdir(self._folder)
        except OSError as error:
            log.limited("folder", "the working directory is gone", folder=self._folder, error=str(error))

    def _become_an_ordinary_process(self) -> None:
        """In a child that a job forked: no signals of ours, no lines of ours."""
        behave_like_any_program()
        self.stage.sole = sole.job = None


def _working_directory() -> str:
    try:
        return os.getcwd()  # noqa: PTH109  # after every job: a Path would cost more than the call
    except OSError:
        return ""


def _highest_open() -> int:
    try:
        return max(int(path.name) for path in Path("/proc/self/fd").iterdir())
    except OSError:
        return 0
