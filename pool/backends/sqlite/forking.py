"""What a fork means for open stores: each is told before it, and after it on both sides."""

import os
import threading
import weakref
from functools import cache
from typing import Protocol


class Forkable(Protocol):
    """`before_fork` lets go of what may not cross and keeps other threads out until one of the two after it."""

    def before_fork(self) -> None: ...
    def after_fork(self) -> None: ...
    def after_fork_in_child(self) -> None: ...


_stores: "weakref.WeakSet[Forkable]" = weakref.WeakSet()
_forking: list[Forkable] = []
_registry = threading.RLock()


def prepare(store: Forkable) -> None:
    """Tell it of every fork from now on. Waits while one is under way: what opened meanwhile would cross it."""
    with _registry:
        _watch_forks()
        _stores.add(store)


@cache
def _watch_forks() -> None:
    """Not before there is a store: a supervisor has none, and what it writes between two births each child copies."""
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)


def _before_fork() -> None:
    _registry.acquire()
    for store in list(_stores):
        _forking.append(store)
        store.before_fork()


def _after_fork_in_parent() -> None:
    for store in _forking:
        store.after_fork()
    _forking.clear()
    _registry.release()


def _after_fork_in_child() -> None:
    global _registry
    _registry = threading.RLock()
    for store in _forking:
        store.after_fork_in_child()
    _forking.clear()
