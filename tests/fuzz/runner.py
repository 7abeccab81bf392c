"""Tries without end, each from a seed of its own, so that a failing one can be tried again alone."""

import random
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

Attempt = Callable[[random.Random], None]
Ground = Callable[[Path], AbstractContextManager[Attempt]]


def fuzz(name: str, ground: Ground, seed: str, tries: Iterator[int]) -> int:
    """Make these tries on one ground; how many were made. The first that fails says how to repeat it."""
    made = 0
    with tempfile.TemporaryDirectory(prefix="jobpool-fuzz-") as folder, ground(Path(folder)) as attempt:
        for number in tries:
            try:
                attempt(random.Random(f"{name} {seed} {number}"))
            except BaseException as error:
                error.add_note(f"again: python -m tests.fuzz --only {name} --seed {seed} --try {number}")
                raise
            made += 1
    return made


def for_seconds(seconds: float) -> Iterator[int]:
    """Numbers until the time is over."""
    end = time.monotonic() + seconds
    number = 0
    while time.monotonic() < end:
        yield number
        number += 1
