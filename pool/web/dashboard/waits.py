"""How long jobs waited for a worker in the last hour, from two readings of the pool's histogram. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pool.board.tally import BOUNDS_S


@dataclass(frozen=True, slots=True)
class Waits:
    """Half of the jobs started within `half_s`, 95 of 100 within `most_s`: upper bounds; None = longer than the last bound."""

    count: int
    half_s: float | None
    most_s: float | None


def waits_in(status: dict[str, Any] | None) -> Waits | None:
    """From our own pool's /status; None where it has not started a job in this time."""
    readings = (status or {}).get("waits")
    if not readings:
        return None
    counts = [after - before for before, after in zip(readings["before"], readings["after"], strict=True)]
    if sum(counts) <= 0 or min(counts) < 0:
        return None
    return Waits(sum(counts), _within(counts, 0.5), _within(counts, 0.95))


def _within(counts: Sequence[int], share: float) -> float | None:
    """The bound below which this share of the jobs lies."""
    reached, wanted = 0, share * sum(counts)
    for bound, count in zip(BOUNDS_S, counts, strict=False):
        reached += count
        if reached >= wanted:
            return bound
    return None
