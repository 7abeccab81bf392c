"""How the parent's other residents (status socket, systemd, metrics) see the supervisor, and how it sees them."""

import selectors
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from pool.board.board import Board
from pool.supervisor.children import Children
from pool.supervisor.planned import Plan

Reply = Callable[[int, dict[str, object]], None]
"""Called once with an HTTP status code and a document, when the outcome of a command is known."""


@dataclass(frozen=True, slots=True)
class LastReload:
    """The outcome of the latest reload. `at` is a wall time; `error` is empty when it went well."""

    at: float
    ok: bool
    error: str = ""
    changes: tuple[str, ...] = ()


class Controlled(Protocol):
    """What residents may read and ask. All of it is called in the loop's own thread and returns at once."""

    children: Children
    plan: Plan

    @property
    def last_reload(self) -> LastReload | None:
        """The outcome of the latest reload; None before the first."""
        ...

    @property
    def board(self) -> Board:
        """The board; there once residents are opened."""
        ...

    def state(self) -> str:
        """starting, ready, degraded, draining, reloading or stopping."""
        ...

    @property
    def state_since(self) -> float:
        """Wall time of the last change of state."""
        ...

    @property
    def started_wall(self) -> float:
        """Wall time of the supervisor's start."""
        ...

    def problems(self) -> list[str]:
        """Sentences for people: parked slots, a memory ceiling below a fresh worker's size, refused forks."""
        ...

    def command(self, verb: str, options: dict[str, object], reply: Reply) -> None:
        """Do a verb: reload{rolling,wait} scale{count,group} drain{group} undrain{group} restart{group|slot} stop{now}
        stack{slot} kill{job}. `reply` may come at once or turns later; an unknown verb gets 404, a bad option 422.
        """
        ...


class Resident(Protocol):
    """Something that lives in the parent's loop beside the children; it must never block and never raise."""

    def open(self, supervisor: Controlled, selector: selectors.BaseSelector) -> None:
        """Called once, before the first fork: listen, register with the selector (data = callable taking the mask)."""
        ...

    def state_changed(self, state: str) -> None:
        """Called at each change of state, also at the short ones (reloading, then ready)."""
        ...

    def turn(self, now: float) -> None:
        """Called at the end of each turn of the loop; `now` is monotonic."""
        ...

    def next_deadline(self) -> float | None:
        """The monotonic time at which `turn` is wanted at the latest; None: no wish."""
        ...

    def close(self) -> None:
        """Called once in the parent, when everything else is gone: remove what was made."""
        ...
