"""Visits every state of the model, nearest first, so that a counter-example is a shortest one."""

from collections import deque
from dataclasses import dataclass, field

from tests.protocol_model.model import MOST_MESSAGES, Broken, Budget, Model, State, beginning


@dataclass
class Found:
    """What was seen: how many states, and the first way to each broken promise."""

    states: int = 0
    broken: dict[str, list[str]] = field(default_factory=dict)


def explore(budget: Budget, *dropped: str, most_states: int = 400_000, until_broken: bool = False) -> Found:
    """All that can happen within the budget without these rules. With `until_broken` it ends at the first broken promise."""
    model, first = Model(*dropped), beginning(budget)
    came_from: dict[State, tuple[State, str] | None] = {first: None}
    queue, found = deque([first]), Found()
    while queue:
        state = queue.popleft()
        for what, after in model.moves(state):
            if isinstance(after, Broken):
                found.broken.setdefault(after.promise, [*_way(came_from, state), what])
            elif len(after.net) <= MOST_MESSAGES and after not in came_from:
                came_from[after] = (state, what)
                queue.append(after)
        if is_resting(state) and (promise := stranded(state)):
            found.broken.setdefault(promise, _way(came_from, state))
        if until_broken and found.broken:
            break
        assert len(came_from) < most_states, f"more than {most_states:,} states: make the budget smaller"
    found.states = len(came_from)
    return found


def is_resting(state: State) -> bool:
    """Nothing is under way that could still change the store."""
    return not state.net and not state.graves and not any(lane.still for lane in state.lanes)


def stranded(state: State) -> str | None:
    """A running job whose holder is not there, or does not know of it and waits for nothing."""
    for job in state.jobs:
        if job.state != "R" or job.holder is None:
            continue
        lane = state.lanes[job.holder[0]]
        if lane.gen != job.holder[1] or lane.phase == "gone":
            return "a job is held by a worker that is gone"
        if lane.phase == "idle":
            return "a job is held by a worker that does not know of it"
    return None


def _way(came_from: dict[State, tuple[State, str] | None], state: State) -> list[str]:
    steps: list[str] = []
    while (before := came_from[state]) is not None:
        state, what = before
        steps.append(what)
    return steps[::-1]
