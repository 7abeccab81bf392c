"""Keeping a machine awake: a host that packs its guests takes the memory of one that rests away, whatever its code does."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def kept_awake() -> Iterator[None]:
    """On each processor a process of the lowest class (SCHED_IDLE), which gives way to any other at once."""
    words = [sys.executable, "-c", "while True: pass"]
    busy = [subprocess.Popen(words, preexec_fn=_give_way) for _ in range(os.cpu_count() or 1)]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


def _give_way() -> None:
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
