"""The protocol between lanes, keepers and the store, small enough to visit every state of it.

Two pools with one worker each, two jobs (job 1 is at most once). Messages are lost, doubled and overtaken by others;
workers are killed, told to leave, and born again; a whole pool stands still, perhaps for longer than its lease. A step
of the store is atomic, as it is in both backends. Budgets bound how often each misfortune strikes.

    lane     idle -> asked -> claimed -> runs -> asked (its end, and for the next) … and gone; born again as next generation
    message  ("ask", lane, gen, n, end, want) to the store, ("answer", lane, gen, n, word) back, ("beat", lane, gen, job, claim)
    store    jobs, what each lane asked last and was told, and the highest dead generation of each slot

`RULES` are the rules of the protocol that can be left out; `moves` yields every step that a state allows. A step that
breaks a promise yields a `Broken`.
"""

from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

RULES = {
    "fence": "a settlement names its claim, and the number rises with each hand-out",
    "requests": "calls of a lane are numbered: the same again has the same answer, a lower one is refused",
    "departures": "every departure ends in recover, planned or not",
    "bar": "recover bars the departed: what it sent before and arrives later is refused",
    "started": "claimed is not started: the board says which claim had begun",
    "job of the started": "the board names the job of the claim, not its number alone",
    "job of the order": "an order to drop a lost claim names the job, not its number alone",
    "late start": "a claim that may be old is asked for again before its start",
    "sure loss": "a pool is lost only after a lease of silence",
}
AT_MOST_ONCE = 1  # which of the jobs
MOST_REQUESTS = ((3, 2), (2, 2))  # per lane and generation
MOST_MESSAGES = 2
STRUCK = 0  # the lanes are alike, so whoever is struck may be called this
GENERATIONS = 2


class Job(NamedTuple):
    """`state` is P(ending), R(unning), D(one) or F(ailed); `ran`: the present claim really began; `starts`: of all."""

    state: str = "P"
    holder: tuple[int, int] | None = None  # lane, generation
    claim: int = 0
    ran: bool = False
    starts: int = 0


class Lane(NamedTuple):
    """`end` is what it settles with its present request. `old`: time went by since it asked. `lost`: its pool was given up."""

    phase: str = "idle"
    gen: int = 0
    request: int = 0
    held: tuple[int, int] | None = None  # job, claim
    end: tuple[int, int, str] | None = None  # job, claim, how
    want: bool = True
    order: tuple[int, int] | None = None
    still: bool = False
    old: bool = False
    lost: bool = False


class Entry(NamedTuple):
    """What the store remembers of one generation of a lane."""

    request: int = 0
    settled: bool | None = None
    held: tuple[int, int] | None = None


class Budget(NamedTuple):
    """How often each misfortune may still strike."""

    losses: int = 0
    doubles: int = 0
    kills: int = 0
    leaves: int = 0
    pauses: int = 0
    beats: int = 0


class State(NamedTuple):
    jobs: tuple[Job, ...]
    lanes: tuple[Lane, ...]
    entries: tuple[tuple[Entry, ...], ...]  # per lane, per generation
    bars: tuple[int, ...]
    net: tuple[tuple, ...]
    graves: tuple[tuple, ...]  # departures the keeper has not told yet: lane, generation, board (None: not known)
    budget: Budget


class Broken(NamedTuple):
    promise: str


Step = tuple[str, State | Broken]


def beginning(budget: Budget, jobs: int = 2) -> State:
    lanes = (Lane(), Lane())
    entries = tuple(tuple(Entry() for _ in range(GENERATIONS)) for _ in lanes)
    return State(tuple(Job() for _ in range(jobs)), lanes, entries, (-1, -1), (), (), budget)


class Model:
    """The protocol without the rules in `dropped`."""

    def __init__(self, *dropped: str) -> None:
        assert set(dropped) <= RULES.keys()
        self.dropped = frozenset(dropped)

    def has(self, rule: str) -> bool:
        return rule not in self.dropped

    def moves(self, state: State) -> Iterator[Step]:
        for number, lane in enumerate(state.lanes):
            if not lane.still:
                yield from self.lane_moves(state, number, lane)
        yield from self.misfortunes(state, STRUCK, state.lanes[STRUCK])
        for number, message in enumerate(state.net):
            yield from self.deliveries(state, number, message)
        for number, grave in enumerate(state.graves):
            rest = replace(state, graves=without(state.graves, number))
            yield f"keeper recovers lane {grave[0]}", self.recover(rest, grave[0], grave[1], grave[2])

    # ------------------------------------------------------------ what a lane does

    def lane_moves(self, state: State, number: int, lane: Lane) -> Iterator[Step]:
        if lane.phase == "idle" and lane.request < MOST_REQUESTS[number][lane.gen]:
            yield f"lane {number} asks", self.ask(state, number, lane._replace(held=None, end=None, want=True))
        if lane.phase == "claimed":
            yield self.start(state, number, lane)
        if lane.phase == "runs":
            yield from self.ends(state, number, lane)
        if lane.phase == "gone" and lane.gen + 1 < GENERATIONS:
            yield f"lane {number} is born again", with_lane(state, number, Lane(gen=lane.gen + 1, lost=False))

    def ask(self, state: State, number: int, lane: Lane) -> State:
        """A fresh request; it may be the end of a job and the wish for the next in one."""
        asked = lane._replace(phase="asked", request=lane.request + 1, old=False, order=None)
        return send(with_lane(state, number, asked), ("ask", number, asked.gen, asked.request, asked.end, asked.want))

    def start(self, state: State, number: int, lane: Lane) -> Step:
        assert lane.held is not None
        if lane.old and self.has("late start"):
            return f"lane {number} makes sure of an old claim", self.ask(
                state, number, lane._replace(end=None, want=True)
            )
        at, claim = lane.held
        job = state.jobs[at]
        is_ours = job.state == "R" and job.holder == (number, lane.gen) and job.claim == claim
        others = [
            one for one in state.lanes if one is not lane and one.phase == "runs" and one.held and one.held[0] == at
        ]
        what = f"lane {number} starts job {at} (claim {claim})"
        if any(not one.lost for one in others):
            return what, Broken("two runs of one job at once")
        if at == AT_MOST_ONCE and job.starts:
            return what, Broken("an at-most-once job starts twice")
        if not is_ours:
            return what, Broken("a job starts under a claim that was taken away")
        begun = with_job(state, at, job._replace(ran=True, starts=job.starts + 1))
        return what, with_lane(begun, number, lane._replace(phase="runs"))

    def ends(self, state: State, number: int, lane: Lane) -> Iterator[Step]:
        assert lane.held is not None
        at, claim = lane.held
        ended = lane._replace(held=lane.held, end=(at, claim, "done"))
        yield f"lane {number} ends job {at}, asks for more", self.ask(state, number, ended._replace(want=True))
        yield f"lane {number} ends job {at}, leaves after", self.ask(state, number, ended._replace(want=False))
        if at != AT_MOST_ONCE:
            back = ended._replace(end=(at, claim, "back"), want=False)
            yield f"lane {number} hands job {at} back", self.ask(state, number, back)
        if lane.order is not None and (
            lane.order == lane.held if self.has("job of the order") else lane.order[1] == claim
        ):
            job = state.jobs[at]
            if job.holder == (number, lane.gen) and job.claim == claim:
                yield f"lane {number} drops job {at} by order", Broken("a job is dropped though its claim holds")
            yield f"lane {number} drops job {at} by order", self.ask(state, number, ended._replace(want=False))

    # ------------------------------------------------------------ what happens to it

    def misfortunes(self, state: State, number: int, lane: Lane) -> Iterator[Step]:
        left = state.budget
        if lane.phase == "asked" and left.doubles and not lane.still:
            again = ("ask", number, lane.gen, lane.request, lane.end, lane.want)
            yield f"lane {number} asks again", send(spend(state, "doubles"), again)
        if lane.phase != "gone" and left.kills:
            yield f"lane {number} is killed", bury(spend(state, "kills"), number, lane, board_of(lane))
        if lane.phase in ("idle", "asked") and lane.end is None and left.leaves and not lane.still:
            told = spend(state, "leaves")
            gone = bury(told, number, lane, board_of(lane)) if self.has("departures") else leave(told, number, lane)
            yield f"lane {number} is told to leave", gone
        if left.pauses and not lane.still and lane.phase != "gone":
            yield (
                f"pool {number} stands still",
                with_lane(spend(state, "pauses"), number, lane._replace(still=True, old=True)),
            )
        if lane.still:
            yield f"pool {number} goes on", with_lane(state, number, lane._replace(still=False))
            if not lane.lost:
                yield f"pool {number} is given up", self.give_up(state, number)
        if not self.has("sure loss") and not lane.lost and lane.phase != "gone":
            yield f"pool {number} is given up at once", self.give_up(state, number)
        if left.beats and not lane.still and lane.held is not None and lane.phase != "gone":
            yield f"keeper {number} beats", send(spend(state, "beats"), ("beat", number, lane.gen, *lane.held))

    def give_up(self, state: State, number: int) -> State | Broken:
        """Another keeper has watched its beat stand still for a lease; its board is not to be had."""
        lane = state.lanes[number]
        lost = with_lane(state, number, lane._replace(lost=self.has("sure loss")))
        return self.recover(lost, number, lane.gen, None)

    # ------------------------------------------------------------ the links and the store

    def deliveries(self, state: State, number: int, message: tuple) -> Iterator[Step]:
        rest = replace(state, net=without(state.net, number))
        what = f"{message[0]} {message[3]} of lane {message[1]}.{message[2]}"
        if state.budget.losses:
            yield f"{what} is lost", spend(rest, "losses")
        if message[0] == "ask":
            yield f"{what} reaches the store", self.serve(rest, *message[1:])
        elif message[0] == "answer" and not state.lanes[message[1]].still:
            yield f"{what} arrives: {message[4]}", self.hear(rest, *message[1:])
        elif message[0] == "beat":
            yield f"{what} reaches the store", self.compare(rest, *message[1:])

    def serve(self, state: State, number: int, gen: int, request: int, end: tuple | None, want: bool) -> State | Broken:
        entry = state.entries[number][gen]
        if self.has("bar") and gen <= state.bars[number]:
            return send(state, ("answer", number, gen, request, "barred"))
        if self.has("requests") and request <= entry.request:
            return state if request < entry.request else self.answer(state, number, gen, request)
        settled = None
        if end is not None:
            after, settled = self.settle(state, number, gen, end)
            if isinstance(after, Broken):
                return after
            state = after
        held = self.still_held(state, number, gen)
        if want and held is None:
            state, held = self.hand_out(state, number, gen)
        state = with_entry(state, number, gen, Entry(max(request, entry.request), settled, held))
        return self.answer(state, number, gen, request)

    def answer(self, state: State, number: int, gen: int, request: int) -> State:
        """What the entry says: whether the end was taken, and the claim if it still holds."""
        entry = state.entries[number][gen]
        return send(state, ("answer", number, gen, request, (entry.settled, self.still_held(state, number, gen))))

    def still_held(self, state: State, number: int, gen: int) -> tuple[int, int] | None:
        held = state.entries[number][gen].held
        if held is None:
            return None
        job = state.jobs[held[0]]
        return held if job.state == "R" and job.holder == (number, gen) and job.claim == held[1] else None

    def settle(self, state: State, number: int, gen: int, end: tuple) -> tuple[State | Broken, bool]:
        at, claim, how = end
        job = state.jobs[at]
        is_held = job.state == "R" and job.holder == (number, gen)
        if not is_held or (self.has("fence") and job.claim != claim):
            return state, False
        if job.claim != claim:
            return Broken("a late settlement settles a newer claim"), True
        after = job._replace(state="D" if how == "done" else "P", holder=None, ran=False)
        return with_job(state, at, after), True

    def hand_out(self, state: State, number: int, gen: int) -> tuple[State, tuple[int, int] | None]:
        for at, job in enumerate(state.jobs):
            if job.state == "P":
                claimed = job._replace(state="R", holder=(number, gen), claim=job.claim + 1, ran=False)
                return with_job(state, at, claimed), (at, claimed.claim)
        return state, None

    def hear(self, state: State, number: int, gen: int, request: int, word: object) -> State | Broken:
        """A reply counts only for the request it belongs to."""
        lane = state.lanes[number]
        if (lane.phase, lane.gen, lane.request) != ("asked", gen, request):
            return state
        if word == "barred":
            return leave(state, number, lane)
        held = word[1]  # type: ignore[index]
        if held is not None:
            return with_lane(state, number, lane._replace(phase="claimed", held=held, end=None))
        return with_lane(state, number, lane._replace(phase="idle", held=None, end=None))

    def compare(self, state: State, number: int, gen: int, at: int, claim: int) -> State:
        """The beat's audit: what the lane holds and the store does not know of any more is to be dropped."""
        job, lane = state.jobs[at], state.lanes[number]
        is_held = job.holder == (number, gen) and job.claim == claim and job.state == "R"
        if is_held or lane.gen != gen or lane.phase == "gone":
            return state
        return with_lane(state, number, lane._replace(order=(at, claim)))

    def recover(self, state: State, number: int, gen: int, board: tuple | None) -> State | Broken:
        """Take back what the departed held. `board` is ("", ) or its (job, claim) that had started; None: it is lost."""
        for at, job in enumerate(state.jobs):
            if job.state != "R" or job.holder != (number, gen):
                continue
            has_started = board is None or self.says_started(board, at, job)
            if has_started and not job.ran and board is not None:
                return Broken("a claim that never started is charged")
            is_over = has_started and at == AT_MOST_ONCE
            state = with_job(state, at, job._replace(state="F" if is_over else "P", holder=None, ran=False))
        bars = tuple(max(bar, gen) if at == number else bar for at, bar in enumerate(state.bars))
        return replace(state, bars=bars)

    def says_started(self, board: tuple, at: int, job: Job) -> bool:
        if not self.has("started"):
            return True
        if not board:
            return False
        return board[1] == job.claim and (board[0] == at or not self.has("job of the started"))


# ---------------------------------------------------------------- pieces


def board_of(lane: Lane) -> tuple:
    """What the board says had started; it still names the old job while its end and the next claim are under way."""
    if lane.phase == "runs" or (lane.phase == "asked" and lane.end is not None):
        return lane.held or ()
    return ()


def bury(state: State, number: int, lane: Lane, board: tuple) -> State:
    gone = leave(state, number, lane)
    return replace(gone, graves=(*gone.graves, (number, lane.gen, board)))


def leave(state: State, number: int, lane: Lane) -> State:
    return with_lane(state, number, Lane(phase="gone", gen=lane.gen, request=lane.request))


def replace(state: State, **fields: object) -> State:
    return state._replace(**fields)  # type: ignore[arg-type]


def with_job(state: State, at: int, job: Job) -> State:
    return replace(state, jobs=(*state.jobs[:at], job, *state.jobs[at + 1 :]))


def with_lane(state: State, at: int, lane: Lane) -> State:
    return replace(state, lanes=(*state.lanes[:at], lane, *state.lanes[at + 1 :]))


def with_entry(state: State, at: int, gen: int, entry: Entry) -> State:
    mine = (*state.entries[at][:gen], entry, *state.entries[at][gen + 1 :])
    return replace(state, entries=(*state.entries[:at], mine, *state.entries[at + 1 :]))


def send(state: State, message: tuple) -> State:
    """The net has no order, so states that differ only in that are one."""
    return replace(state, net=tuple(sorted((*state.net, message), key=_in_order)))


@cache
def _in_order(message: tuple) -> str:
    return repr(message)


def spend(state: State, what: str) -> State:
    return replace(state, budget=state.budget._replace(**{what: getattr(state.budget, what) - 1}))


def without(items: tuple, at: int) -> tuple:
    return (*items[:at], *items[at + 1 :])
