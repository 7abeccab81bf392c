"""Claims ahead: a worker that starts what it holds, a keeper that takes it back, step by step, in every order.

The worker W has claimed job A ahead and job B after it. It starts A, or is kept from it; closes its sheaf; calls the store,
which hands it C if that is free; starts C as a single job. The keeper K looks once, and once more. Another worker takes
whatever is pending and runs it. W may be killed at any moment; then a departure says what the board says.

    board   since (the sheaf is open), lane (phase, job) and its ending, mark (the job that the keeper has given up)
    store   job -> "P"ending, ("W", claim) held by W, "O" held by the other, "D"one; W's lane holds one of them
"""

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

RULES = {
    "lock at the start": "the worker holds the lock from its look at the mark until it has written that it starts",
    "lock at the close": "the worker closes the sheaf under the lock",
    "look again": "the keeper looks, under the lock, whether the sheaf is still open",
    "mark": "the keeper marks what it takes back, and the worker looks",
    "named claims": "what is taken back is named by job and claim",
}
JOBS = "AC"


class State(NamedTuple):
    """`at`, `looks`: where worker and keeper are. `seen`: what the keeper read. `running`: who runs which job now."""

    at: str = "open"
    keeper: str = "rest"
    looks: int = 2
    lock: str = ""
    since: bool = True
    lane: tuple[str, str] = ("claimed", "A")
    mark: str = ""
    seen: tuple[str, str] = ("", "")
    store: tuple[str, ...] = ("W", "P")
    running: frozenset[tuple[str, str]] = frozenset()
    finished: frozenset[str] = frozenset()
    other: str = ""
    kills: int = 1


class Broken(NamedTuple):
    promise: str


TWICE = "a job runs twice at the same time"
AGAIN = "a job that had finished, and said so, runs again"
ROBBED = "a running job is taken from its living worker"


def of(state: State, job: str) -> str:
    return state.store[JOBS.index(job)]


def put(state: State, job: str, where: str) -> State:
    at = JOBS.index(job)
    return state._replace(store=(*state.store[:at], where, *state.store[at + 1 :]))


class Model:
    def __init__(self, *dropped: str) -> None:
        assert set(dropped) <= RULES.keys()
        self.dropped = frozenset(dropped)

    def has(self, rule: str) -> bool:
        return rule not in self.dropped

    def moves(self, state: State) -> Iterator[tuple[str, State | Broken]]:
        yield from self.worker(state)
        yield from self.keeper(state)
        yield from self.other(state)
        if state.kills and state.at != "dead":
            running = frozenset(pair for pair in state.running if pair[0] != "W")
            lock = "" if state.lock == "W" else state.lock
            yield "W is killed", state._replace(at="dead", running=running, lock=lock, kills=0)

    # ------------------------------------------------------------ the worker

    def worker(self, s: State) -> Iterator[tuple[str, State | Broken]]:
        job = s.lane[1]
        if s.at == "open" and (s.lock == "" or not self.has("lock at the start")):
            lock = "W" if self.has("lock at the start") else s.lock
            yield "W is about to start A", s._replace(at="looks", lock=lock)
        elif s.at == "looks":
            given_up = self.has("mark") and s.mark == job
            yield "W looks at the mark", s._replace(at="skips" if given_up else "starts")
        elif s.at == "starts":
            started = s._replace(at="begins", lane=("started", job))
            yield "W writes that it starts A", started._replace(lock="" if s.lock == "W" else s.lock)
        elif s.at == "begins":
            yield run(s._replace(at="runs"), "W", job)
        elif s.at == "runs":
            done = s._replace(at="ended", running=s.running - {("W", job)}, lane=("finished", job))
            yield "A ends", done._replace(finished=s.finished | {job})
        elif s.at == "skips":
            yield "W lets A be", s._replace(at="ended", lock="" if s.lock == "W" else s.lock)
        elif s.at == "ended" and (s.lock == "" or not self.has("lock at the close")):
            yield "W closes the sheaf", s._replace(at="closed", since=False)
        elif s.at == "closed":
            yield "W hands in A and asks", self.exchange(s, job)
        elif s.at == "single":
            yield "W writes that it starts C", s._replace(at="begins C", lane=("started", "C"))
        elif s.at == "begins C":
            yield run(s._replace(at="runs C"), "W", "C")
        elif s.at == "runs C":
            yield "C ends", s._replace(at="gone", running=s.running - {("W", "C")}, lane=("finished", "C"))
        elif s.at == "dead":
            yield "the departure of W is settled", self.depart(s)

    def exchange(self, s: State, job: str) -> State:
        if of(s, job) == "W":
            s = put(s, job, "D" if s.lane[0] == "finished" else "P")
        if of(s, "C") == "P":
            return put(s, "C", "W")._replace(at="single", lane=("claimed", "C"))
        return s._replace(at="gone", lane=("none", ""))

    def depart(self, s: State) -> State:
        for job in JOBS:
            if of(s, job) == "W":
                s = put(s, job, "D" if s.lane == ("finished", job) else "P")
        return s._replace(at="buried", lane=("none", ""))

    # ------------------------------------------------------------ the keeper

    def keeper(self, s: State) -> Iterator[tuple[str, State | Broken]]:
        if s.keeper == "rest" and s.looks and s.since and s.at not in ("dead", "buried"):
            yield "K finds the sheaf open", s._replace(keeper="wants", looks=s.looks - 1)
        elif s.keeper == "wants":
            if s.lock == "":
                yield "K takes the lock", s._replace(keeper="looks", lock="K")
            else:
                yield "K finds it taken", s._replace(keeper="rest")
        elif s.keeper == "looks":
            if s.since or not self.has("look again"):
                yield "K finds it open still", s._replace(keeper="reads")
            else:
                yield "K finds it closed", s._replace(keeper="rest", lock="")
        elif s.keeper == "reads":
            if s.lane[0] in ("claimed", "finished"):
                yield "K reads the lane", s._replace(keeper="marks", seen=s.lane)
            else:
                yield "K finds nothing", s._replace(keeper="rest", lock="")
        elif s.keeper == "marks":
            yield "K marks and frees", s._replace(keeper="tells", mark=s.seen[1], lock="")
        elif s.keeper == "tells":
            yield "K tells the store", self.tell(s)

    def tell(self, s: State) -> State | Broken:
        phase, job = s.seen
        s = s._replace(keeper="rest", seen=("", ""))
        held = next((one for one in JOBS if of(s, one) == "W"), "")
        if not held or (self.has("named claims") and held != job):
            return s
        if ("W", held) in s.running:
            return Broken(ROBBED)
        return put(s, held, "D" if phase == "finished" and held == job else "P")

    # ------------------------------------------------------------ the other worker

    def other(self, s: State) -> Iterator[tuple[str, State | Broken]]:
        if s.other:
            ended = put(s, s.other, "D")
            yield f"{s.other} ends elsewhere", ended._replace(other="", running=s.running - {("O", s.other)})
            return
        for job in JOBS:
            if of(s, job) == "P":
                yield run(put(s, job, "O")._replace(other=job), "O", job)


def run(s: State, who: str, job: str) -> tuple[str, State | Broken]:
    """It begins, unless that breaks a promise."""
    what = f"{who} runs {job}"
    if any(other == job for _, other in s.running):
        return what, Broken(TWICE)
    if job in s.finished:
        return what, Broken(AGAIN)
    return what, s._replace(running=s.running | {(who, job)})


def explore(*dropped: str) -> tuple[int, dict[str, list[str]]]:
    """How many states there are, and the shortest way to each broken promise."""
    model, first = Model(*dropped), State()
    ways: dict[State, tuple[str, ...]] = {first: ()}
    queue, broken = deque([first]), {}
    while queue:
        state = queue.popleft()
        for what, after in model.moves(state):
            way = (*ways[state], what)
            if isinstance(after, Broken):
                broken.setdefault(after.promise, list(way))
            elif after not in ways:
                ways[after] = way
                queue.append(after)
    return len(ways), broken
