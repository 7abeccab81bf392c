"""Waiting for facts: a test asks until something is true and fails with words when it never becomes so."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

GENEROUS_SECONDS = 60.0


def until(fact: Callable[[], T], what: str = "the fact", *, within: float = GENEROUS_SECONDS) -> T:
    """Ask `fact` until it answers something true, and return that; AssertionError after `within` seconds."""
    deadline = time.monotonic() + within
    pause = 0.001
    while True:
        answer = fact()
        if answer:
            return answer
        if time.monotonic() > deadline:
            raise AssertionError(f"{what} did not come true within {within:g} s (last answer: {answer!r})")
        time.sleep(pause)
        pause = min(pause * 1.5, 0.05)
