"""Claims ahead: a worker that starts what it holds, a keeper that takes it back, step by step, in every order.

The worker W has claimed job A ahead and job B after it. It starts A, or is kept from it; closes its sheaf; calls the store,
which hands it C if that is free, alone or in a sheaf again; starts C. The keeper K looks once, and once more. Another worker
takes whatever is pending and runs it. W may be killed at any moment; then a departure says what the board says.

    board   since (the sheaf is open), lane (phase, job) and its ending, mark (the job that the keeper has given up)
    age     of the open sheaf: "young" (W starts freely), "older" (W needs the lock), "old" (K takes back)
    store   job -> "P"ending, "W" held by W, "O" held by the other, "D"one; W's lane holds one of them
    turn    the number of W's claim: it may hand C back and claim it again
"""

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

RULES = {
    "lock at the start": "the worker holds the lock from its look at the mark until it has written that it starts",
    "lock at the close": "the worker closes the sheaf under the lock",
    "look again": "the keeper looks, under the lock, whether the sheaf is still open",
    "look at the age": "the keeper looks, under the lock, whether it is an old one",
    "read the clock last": "a free start is sure when the sheaf is young after it was written",
    "mark": "the keeper marks what it takes back, and the worker looks",
    "named claims": "what is taken back is named by job and claim",
}
JOBS = "AC"
MOST_TURNS = 3


class State(NamedTuple):
    """`at`, `looks`: where worker and keeper are. `seen`: what the keeper read. `running`: who runs which job now."""

    at: str = "open"
    keeper: str = "rest"
    looks: int = 2
    lock: str = ""
    since: bool = True
    age: str = "young"
    lane: tuple[str, str] = ("claimed", "A")
    turn: int = 1
    mark: tuple[str, int] = ("", 0)
    seen: tuple[str, str, int] = ("", "", 0)
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
        if state.since and state.age != "old":
            yield "time passes", state._replace(age="older" if state.age == "young" else "old")
        if state.kills and state.at != "dead":
            running = frozenset(pair for pair in state.running if pair[0] != "W")
            lock = "" if state.lock == "W" else state.lock
            yield "W is killed", state._replace(at="dead", running=running, lock=lock, kills=0)

    # ------------------------------------------------------------ the worker

    def worker(self, s: State) -> Iterator[tuple[str, State | Broken]]:
        job = s.lane[1]
        if s.at == "open":
            yield f"W reads the clock before {job}", s._replace(at="writes" if s.age == "young" else "waits")
        elif s.at == "writes":
            yield f"W writes freely that it starts {job}", s._replace(at="reads", lane=("started", job))
        elif s.at == "reads":
            is_free = s.age == "young" or not self.has("read the clock last")
            yield "W reads the clock again", s._replace(at="begins" if is_free else "waits")
        elif s.at == "waits" and (s.lock == "" or not self.has("lock at the start")):
            lock = "W" if self.has("lock at the start") else s.lock
            yield f"W is about to start {job}", s._replace(at="looks", lock=lock)
        elif s.at == "looks":
            given_up = self.has("mark") and s.mark == (job, s.turn)
            yield "W looks at the mark", s._replace(at="skips" if given_up else "starts")
        elif s.at == "starts":
            started = s._replace(at="begins", lane=("started", job))
            yield f"W writes that it starts {job}", started._replace(lock="" if s.lock == "W" else s.lock)
        elif s.at == "begins":
            yield run(s._replace(at="runs"), "W", job)
        elif s.at == "runs":
            done = s._replace(at="ended", running=s.running - {("W", job)}, lane=("finished", job))
            yield f"{job} ends", done._replace(finished=s.finished | {job})
        elif s.at == "skips":
            let_be = s._replace(at="ended", lane=("claimed", job))
            yield f"W lets {job} be", let_be._replace(lock="" if s.lock == "W" else s.lock)
        elif s.at == "ended" and (s.lock == "" or not self.has("lock at the close")):
            yield "W closes the sheaf", s._replace(at="closed", since=False)
        elif s.at == "closed":
            yield from self.exchange(s, job)
        elif s.at == "single":
            yield "W writes that it starts C", s._replace(at="begins C", lane=("started", "C"))
        elif s.at == "begins C":
            yield run(s._replace(at="runs C"), "W", "C")
        elif s.at == "runs C":
            yield "C ends", s._replace(at="gone", running=s.running - {("W", "C")}, lane=("finished", "C"))
        elif s.at == "dead":
            yield "the departure of W is settled", self.depart(s)

    def exchange(self, s: State, job: str) -> Iterator[tuple[str, State]]:
        if of(s, job) == "W":
            s = put(s, job, "D" if s.lane[0] == "finished" else "P")
        if of(s, "C") == "P" and s.turn < MOST_TURNS:
            claimed = put(s, "C", "W")._replace(lane=("claimed", "C"), turn=s.turn + 1)
            yield f"W hands in {job} and has C", claimed._replace(at="single")
            yield f"W hands in {job} and has C in a sheaf", claimed._replace(at="open", since=True, age="young")
        else:
            yield f"W hands in {job}", s._replace(at="gone", lane=("none", ""))

    def depart(self, s: State) -> State:
        for job in JOBS:
            if of(s, job) == "W":
                s = put(s, job, "D" if s.lane == ("finished", job) else "P")
        return s._replace(at="buried", lane=("none", ""))

    # ------------------------------------------------------------ the keeper

    def keeper(self, s: State) -> Iterator[tuple[str, State | Broken]]:
        if s.keeper == "rest" and s.looks and is_overdue(s) and s.at not in ("dead", "buried"):
            yield "K finds an old sheaf", s._replace(keeper="wants", looks=s.looks - 1)
        elif s.keeper == "wants":
            if s.lock == "":
                yield "K takes the lock", s._replace(keeper="looks", lock="K")
            else:
                yield "K finds it taken", s._replace(keeper="rest")
        elif s.keeper == "looks":
            is_open = s.since or not self.has("look again")
            is_old = s.age == "old" or not self.has("look at the age")
            if is_open and is_old:
                yield "K finds it still so", s._replace(keeper="reads")
            else:
                yield "K finds it closed, or another", s._replace(keeper="rest", lock="")
        elif s.keeper == "reads":
            if s.lane[0] in ("claimed", "finished"):
                yield "K reads the lane", s._replace(keeper="marks", seen=(*s.lane, s.turn))
            else:
                yield "K finds nothing", s._replace(keeper="rest", lock="")
        elif s.keeper == "marks":
            yield "K marks and frees", s._replace(keeper="tells", mark=s.seen[1:], lock="")
        elif s.keeper == "tells":
            yield "K tells the store", self.tell(s)

    def tell(self, s: State) -> State | Broken:
        phase, job, turn = s.seen
        s = s._replace(keeper="rest", seen=("", "", 0))
        held = next((one for one in JOBS if of(s, one) == "W"), "")
        if not held or (self.has("named claims") and (held, s.turn) != (job, turn)):
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


def is_overdue(s: State) -> bool:
    return s.since and s.age == "old"


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
