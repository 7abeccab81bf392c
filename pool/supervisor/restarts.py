"""When a slot is filled again after its process ended: a pure policy over exits. No clock, no process.

A planned exit is free, and so is a kill for what a job did: the next one starts at once. Each other exit doubles the slot's delay; a run of `healthy_after`
seconds forgives what was before. A place whose births keep failing is parked: tried again, but only at `max_delay`.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass

from pool.board.record import Exit, Ordered
from pool.seat import ChildSpec
from pool.supervisor.children import LastExit, Slot

PARKED_AFTER_BOOT_FAILURES = 5
# 2**62 seconds is beyond every max_delay, and a float still holds it: the exponent must stop somewhere.
_HIGHEST_DOUBLING = 62
_JITTER = 0.1
# A job that ran too long, grew too big or was cancelled says nothing about the slot.
_THE_JOBS_FAULT = frozenset({Ordered.TIMEOUT, Ordered.MEMORY, Ordered.CANCEL})
_UNHURRIED_EXITS = frozenset({Exit.BARRED, Exit.ORPHANED})

Dice = Callable[[], float]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What an exit means for its slot. `delay_s` before the next birth; `parked_why` is empty unless it is parked."""

    failures: int
    boot_failures: int
    delay_s: float
    parked_why: str = ""


def judge(spec: ChildSpec, failures: int, boot_failures: int, exit: LastExit, dice: Dice = random.random) -> Verdict:
    """The verdict on a slot with this many failures in a row before `exit`."""
    if exit.planned or exit.ordered in _THE_JOBS_FAULT:
        hurry = exit.announced not in _UNHURRIED_EXITS
        return Verdict(0, 0, 0.0 if hurry else delay_after(spec, 1, dice))
    was_healthy = exit.was_ready and exit.lived_s >= spec.healthy_after
    failures = 1 if was_healthy else failures + 1
    boot_failures = 0 if exit.was_ready else boot_failures + 1
    if boot_failures >= PARKED_AFTER_BOOT_FAILURES and not spec.critical:
        return Verdict(failures, boot_failures, spec.max_delay, _parked_sentence(boot_failures, exit))
    return Verdict(failures, boot_failures, delay_after(spec, failures, dice))


def delay_after(spec: ChildSpec, failures: int, dice: Dice = random.random) -> float:
    """Seconds before the next birth: doubling from `first_delay`, at most `max_delay`, up to a tenth shorter."""
    doubled = spec.first_delay * 2.0 ** min(max(0, failures - 1), _HIGHEST_DOUBLING)
    return min(doubled, spec.max_delay) * (1 - _JITTER * dice())


def apply(verdict: Verdict, slot: Slot, now: float) -> None:
    """Write the verdict into the slot; `now` is monotonic."""
    slot.failures, slot.boot_failures = verdict.failures, verdict.boot_failures
    slot.next_start = now + verdict.delay_s
    slot.parked_until = slot.next_start if verdict.parked_why else None
    slot.parked_why = verdict.parked_why


def _parked_sentence(boot_failures: int, exit: LastExit) -> str:
    return f"failed to start {boot_failures} times in a row: {exit.last_line or exit.sentence}"
