"""`--watch`: the same answer again each second, until Ctrl-C."""

import contextlib
import select
import sys
from collections.abc import Callable
from typing import Any, TypeVar

from pool.cli.failures import OK
from pool.cli.output import is_terminal, say_json

LOOK_EVERY_S = 1.0
T = TypeVar("T")


def watch(look: Callable[[], T], show: Callable[[T], None], picture: Callable[[T], Any], *, as_json: bool) -> int:
    """Redrawn in place on a terminal (`picture`), one after the other in a pipe (`show`) or as JSON."""
    if as_json or not is_terminal():
        return _again(lambda: say_json(look()) if as_json else show(look()))
    from rich.live import Live

    with Live(picture(look()), screen=True, auto_refresh=False) as live:
        return _again(lambda: live.update(picture(look()), refresh=True))


def _again(step: Callable[[], Any]) -> int:
    with contextlib.suppress(KeyboardInterrupt):
        while True:
            step()
            sys.stdout.flush()
            select.select([], [], [], LOOK_EVERY_S)
    return OK
