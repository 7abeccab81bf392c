"""How dear it is on this machine to wake after a rest, whoever wakes."""

import statistics
import time

_BYTES, _PAGE = 40 << 20, 4096
_CACHES = 2.0  # a rest costs so much by itself: others have used the processor's caches meanwhile


def coldness() -> float:
    """At least 1: how many times longer memory takes to answer after a second's rest than the processor's caches explain.

    A host that takes away the pages of guests at rest makes each wake many times dearer: limits of what a resting pool
    may take are to be multiplied by this.
    """
    memory = bytearray(_BYTES)
    _walk(memory)
    warm = min(_walk(memory) for _ in range(3))
    return max(1.0, statistics.median(_after_a_rest(memory) for _ in range(3)) / warm / _CACHES)


def _after_a_rest(memory: bytearray) -> float:
    time.sleep(1.0)
    return _walk(memory)


def _walk(memory: bytearray) -> float:
    """Seconds to write to each page."""
    began = time.perf_counter()
    for place in range(0, _BYTES, _PAGE):
        memory[place] = 1
    return time.perf_counter() - began
