"""`jobpool top`: the pool live on a terminal, with keys; plain lines where there is none.

The terminal is put into its raw-ish mode and given back whatever happens. Ctrl-Z is off while we draw, so that nobody
stops us inside a transaction of the store.
"""

import argparse
import contextlib
import os
import re
import select
import signal
import sys
import termios
import tty
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from pool.backends.contract import Backend
from pool.cli.failures import OK
from pool.cli.output import is_terminal, say
from pool.cli.top_desk import LOOK_EVERY_S, Desk, View
from pool.cli.top_screen import Choice, Screen, chosen_group, draw

PLAIN_WIDTH, PLAIN_HEIGHT = 120, 60
UP, DOWN = ("\x1b[A", "\x1bOA", "k"), ("\x1b[B", "\x1bOB", "j")
KEY = re.compile(r"\x1b[\[O].|.", re.DOTALL)
QUIT = ("q", "\x03", "\x04")


def run_top(arguments: argparse.Namespace, socket: str) -> int:
    """The verb. PoolUnreachable when no pool is there at the start; later it waits for the pool to come back."""
    desk = Desk(socket, lambda: _open_store(arguments.config))
    desk.look_once()
    if not is_terminal():
        return _print_plainly(desk, arguments.count)
    desk.start()
    try:
        with _quiet_terminal(), _wakes_on_resize() as resized:
            return _Top(desk, resized).run(arguments.count)
    finally:
        desk.close()


def _open_store(config: str | None) -> Backend:
    """For failures, pause and retry; a JobpoolError where this user or place has no store."""
    from pool.backends.opening import open_backend
    from pool.cli.flags import load

    settings = load(config).config.backend
    return open_backend(settings.url, namespace=settings.namespace, create=False, producer=True)


def _print_plainly(desk: Desk, count: int) -> int:
    """A picture each second, one after the other, until Ctrl-C or `count` of them."""
    shown = 0
    with contextlib.suppress(KeyboardInterrupt):
        while True:
            for line in _plain_lines(desk.view):
                say(line)
            sys.stdout.flush()
            shown += 1
            if count and shown >= count:
                break
            select.select([], [], [], LOOK_EVERY_S)
            desk.look_once()
    return OK


def _plain_lines(view: View) -> Iterator[str]:
    screen = Screen(PLAIN_WIDTH, PLAIN_HEIGHT, _has_unicode())
    lines = [line.plain.rstrip() for line in draw(view, Choice(panel=""), screen)[:-2]]
    yield from (line for line in lines if line)
    yield ""


class _Top:
    """The loop on a terminal: draw, wait for a key, news or a resize, act."""

    def __init__(self, desk: Desk, resized_fd: int) -> None:
        from rich.console import Console

        self._desk, self._resized_fd = desk, resized_fd
        # An exported COLUMNS or LINES tells the size of another moment, or of another terminal.
        environ = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
        self._console = Console(highlight=False, markup=False, emoji=False, _environ=environ)
        self._choice = Choice()
        self._keys_fd = sys.stdin.fileno() if sys.stdin.isatty() else None
        self._acts: dict[str, Callable[[], None]] = {
            "p": self._pause, "r": self._retry, "+": lambda: self._scale(1), "=": lambda: self._scale(1),
            "-": lambda: self._scale(-1), "g": self._next_group, "\t": self._next_panel,
            **dict.fromkeys(UP, lambda: self._move(-1)), **dict.fromkeys(DOWN, lambda: self._move(1)),
        }  # fmt: skip

    def run(self, count: int) -> int:
        with self._console.screen(hide_cursor=True) as picture:
            shown = 0
            while not count or shown < count:
                picture.update(self._picture())
                shown += 1
                if self._wait() in QUIT:
                    break
        return OK

    def _picture(self) -> Any:
        from rich.text import Text

        width, height = self._console.size
        lines = draw(self._desk.view, self._choice, Screen(width, height, _has_unicode()))
        return Text("\n", no_wrap=True, overflow="crop").join(lines)

    def _wait(self) -> str:
        """The key that was pressed, done already unless it means quit; "" for news."""
        fds = [fd for fd in (self._keys_fd, self._desk.wake_fd, self._resized_fd) if fd is not None]
        ready = select.select(fds, [], [], LOOK_EVERY_S)[0]
        for fd in ready:
            if fd != self._keys_fd:
                _drain(fd)
        if self._keys_fd not in ready:
            return ""
        return self._obey(os.read(self._keys_fd or 0, 64).decode(errors="replace"))

    def _obey(self, typed: str) -> str:
        """Do each key in turn; the first that means quit, or the last. An end of file quits too."""
        key = "q"
        for key in map(str, KEY.findall(typed)):
            if key in QUIT:
                return key
            self._acts.get(key, lambda: None)()
        return key

    # ------------------------------------------------------------------ keys

    def _move(self, by: int) -> None:
        view, choice = self._desk.view, self._choice
        if choice.panel == "queues":
            self._choice = replace(choice, queue=_within(choice.queue + by, view.status.get("queues", ())))
        else:
            self._choice = replace(choice, failure=_within(choice.failure + by, view.failures))

    def _next_panel(self) -> None:
        self._choice = replace(self._choice, panel="failures" if self._choice.panel == "queues" else "queues")

    def _next_group(self) -> None:
        self._choice = replace(self._choice, group=self._choice.group + 1)

    def _pause(self) -> None:
        queues = self._desk.view.status.get("queues", ())
        if queues:
            name = queues[_within(self._choice.queue, queues)]["name"]
            self._desk.order(lambda desk: desk.pause_or_resume(name))

    def _retry(self) -> None:
        failures = self._desk.view.failures
        if failures:
            job_id = failures[_within(self._choice.failure, failures)].id
            self._desk.order(lambda desk: desk.retry(job_id))

    def _scale(self, by: int) -> None:
        group = chosen_group(self._desk.view.status, self._choice)
        if group:
            self._desk.order(lambda desk: desk.scale(group["name"], max(1, group["count"] + by)))


def _within(index: int, entries: Any) -> int:
    return max(0, min(index, len(entries) - 1))


def _has_unicode() -> bool:
    return (sys.stdout.encoding or "").lower().replace("-", "") == "utf8" and os.environ.get("TERM") != "vt100"


@contextlib.contextmanager
def _quiet_terminal() -> Iterator[None]:
    """Keys come one by one and are not echoed; Ctrl-Z is off. Given back afterwards."""
    if not sys.stdin.isatty():
        yield
        return
    fd = sys.stdin.fileno()
    before = termios.tcgetattr(fd)
    try:
        tty.setcbreak(fd)
        quiet = termios.tcgetattr(fd)
        quiet[6][termios.VSUSP] = b"\0"
        termios.tcsetattr(fd, termios.TCSADRAIN, quiet)
        yield
    finally:
        termios.tcsetattr(fd, termios.TCSADRAIN, before)


@contextlib.contextmanager
def _wakes_on_resize() -> Iterator[int]:
    """A descriptor that is readable when the window changed its size. SIGTERM and a hang-up end us in order."""
    read_fd, write_fd = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.signal(signal.SIGWINCH, lambda *_: None)
    for ending in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(ending, signal.default_int_handler)
    signal.set_wakeup_fd(write_fd, warn_on_full_buffer=False)
    try:
        yield read_fd
    finally:
        signal.set_wakeup_fd(-1)
        os.close(read_fd)
        os.close(write_fd)


def _drain(fd: int) -> None:
    with contextlib.suppress(BlockingIOError):
        while os.read(fd, 4096):
            pass
