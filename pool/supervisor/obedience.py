"""What each signal to the parent means; the table of the README is this file in prose."""

import signal
from collections.abc import Callable
from typing import Protocol

from pool import logs
from pool.supervisor.deaths import send
from pool.supervisor.house import House
from pool.supervisor.reloading import Reloading
from pool.supervisor.scaling import Scaling
from pool.supervisor.signals import Letter, terminal_exists

# A key held down, or a terminal that sends twice, is one wish.
SECOND_INTERRUPT_AFTER_S = 0.5
# These change what is wanted, and a pool that stops wants nothing.
_CHANGES = frozenset({signal.SIGHUP, signal.SIGUSR2, signal.SIGTTIN, signal.SIGTTOU})


class Stops(Protocol):
    """The one who can end the pool."""

    @property
    def is_stopping(self) -> bool: ...

    def stop(self, now: float, *, why: str, at_once: bool = False, code: int = 0) -> None: ...


class Obedience:
    """Signals to acts. `has_terminal`: we were started in a terminal's foreground, and not under nohup."""

    def __init__(
        self, house: House, scaling: Scaling, reloading: Reloading, stops: Stops, *, has_terminal: bool
    ) -> None:
        self._house, self._scaling, self._reloading, self._stops = house, scaling, reloading, stops
        self._has_terminal = has_terminal
        self._interrupted_at: float | None = None
        self._acts: dict[int, Callable[[Letter, float], None]] = {
            signal.SIGTERM: lambda letter, now: self._stops.stop(now, why="SIGTERM"),
            signal.SIGQUIT: lambda letter, now: self._stops.stop(now, why="SIGQUIT", at_once=True),
            signal.SIGINT: self._interrupt,
            signal.SIGHUP: self._hang_up,
            signal.SIGUSR1: lambda letter, now: self._reopen_logs(),
            signal.SIGUSR2: lambda letter, now: self._reloading.ask(rolling=True),
            signal.SIGTTIN: lambda letter, now: self._scaling.change_by(+1, now),
            signal.SIGTTOU: lambda letter, now: self._scaling.change_by(-1, now),
        }

    def obey(self, letter: Letter, now: float) -> None:
        """SIGCHLD asks for nothing: each turn looks for the dead."""
        act = self._acts.get(letter.signal)
        if act is not None and not (self._stops.is_stopping and letter.signal in _CHANGES):
            act(letter, now)

    def _interrupt(self, letter: Letter, now: float) -> None:
        first = self._interrupted_at
        self._interrupted_at = letter.at if first is None else first
        is_second = first is not None and letter.at - first > SECOND_INTERRUPT_AFTER_S
        self._stops.stop(now, why="SIGINT", at_once=is_second)

    def _hang_up(self, letter: Letter, now: float) -> None:
        """A reload; but when our terminal has just been closed, nobody is left to ask for one."""
        if self._has_terminal and not terminal_exists():
            self._stops.stop(now, why="the terminal was closed")
        else:
            self._reloading.ask(rolling=False)

    def _reopen_logs(self) -> None:
        logs.reopen()
        for child in self._house.children.living():
            if child.was_ready:
                send(child, signal.SIGUSR1)
