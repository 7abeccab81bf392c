"""How many workers a group should have by how long its oldest job waits. Pure: numbers in, a number and a reason out."""

from dataclasses import dataclass

from pool.seat import ChildSpec

UP_COOLDOWN_S = 5.0
# Growing is cheap to undo; shrinking too early costs a boot under load.
DOWN_COOLDOWN_S = 30.0


@dataclass(frozen=True, slots=True)
class Load:
    """What a decision rests on. `oldest_wait_s`: of the oldest pending job of the group's queues, None = nothing waits."""

    count: int
    idle: int
    oldest_wait_s: float | None
    since_last_step_s: float
    memory_left_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """The count from now on (maybe the same) and why, for people."""

    count: int
    reason: str


def next_step(spec: ChildSpec, load: Load) -> Step | None:
    """None: as it is. One worker per step and cooldown, between `count_min` and `count_max`, within the memory budget."""
    if spec.count_min is None or spec.count_max is None or spec.target_wait is None:
        return None
    if not spec.count_min <= load.count <= spec.count_max:
        return Step(min(max(load.count, spec.count_min), spec.count_max), "brought between count_min and count_max")
    if load.oldest_wait_s is not None and load.oldest_wait_s > spec.target_wait:
        return _up(spec, load, load.oldest_wait_s)
    return _down(spec, load)


def _up(spec: ChildSpec, load: Load, waited_s: float) -> Step | None:
    if load.since_last_step_s < UP_COOLDOWN_S:
        return None
    why = f"the oldest job waits {waited_s:.1f} s, target_wait is {spec.target_wait:g} s"
    if load.count == spec.count_max:
        return Step(load.count, f"{why}; count_max is reached")
    if load.memory_left_bytes is not None and load.memory_left_bytes < spec.memory.limit:
        return Step(load.count, f"{why}; no memory is left for another worker")
    return Step(load.count + 1, why)


def _down(spec: ChildSpec, load: Load) -> Step | None:
    nothing_waits = load.oldest_wait_s is None or load.oldest_wait_s < (spec.target_wait or 0.0) / 2
    if load.count == spec.count_min or load.idle < 1 or not nothing_waits or load.since_last_step_s < DOWN_COOLDOWN_S:
        return None
    return Step(load.count - 1, f"{load.idle} workers are idle and nothing waits")
