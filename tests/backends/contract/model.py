"""A model of a store, simple enough to be right: what rests where, who holds what, and who comes next."""

from collections import Counter
from dataclasses import dataclass, field

from pool.backends.contract import Answer, Want
from pool.identity import LaneId, PoolId, WorkerId
from pool.jobs.job import Claim, NewJob, Outcome
from pool.jobs.lifecycle import Reason, Status
from pool.jobs.retry import Counts, after_loss
from tests.helpers.builders import some_pool

SLOTS = (0, 1, 2)
LANES = (0, 1)
ENDS = {"release": Status.PENDING, "fail": Status.FAILED, "abandon": Status.CANCELLED}


@dataclass
class Expected:
    """What the model believes of a job."""

    id: str
    queue: str
    priority: int
    max_retries: int
    max_kills: int
    unique_key: str | None
    status: Status
    place: int
    retry_count: int = 0
    kill_count: int = 0
    loss_count: int = 0
    misfits: int = 0
    claim: int = 0
    holder: LaneId | None = None
    flagged: bool = False
    reason: Reason | None = None
    runs_alone: bool = False
    shared_a_death: bool = False  # until it has run alone it may be told to do so again
    was_revived: bool = False  # where a revived job stands among its equals is not promised

    def rest(self, status: Status, reason: Reason | None = None) -> None:
        self.status, self.reason, self.holder = status, reason, None

    def settle(self, outcome: Outcome, delay: float, misfit: bool) -> None:
        if outcome is Outcome.COMPLETED:
            self.rest(Status.COMPLETED)
        elif outcome is Outcome.FAILED:
            self.rest(Status.FAILED, Reason.FATAL_ERROR)
        elif outcome is Outcome.CANCELLED or self.flagged:
            self.rest(Status.CANCELLED, Reason.CANCELLED)
        else:
            self.retry_count += outcome is Outcome.RETRIED
            self.misfits += misfit
            self.rest(Status.SCHEDULED if delay else Status.PENDING)

    def lose(self, reason: Reason, *, started: bool, board_lost: bool, shared: bool) -> None:
        counts = Counts(self.retry_count, self.max_retries, self.kill_count, self.max_kills, self.loss_count)
        loss = after_loss(
            counts, reason, started=started, board_lost=board_lost, shared=shared, cancel_requested=self.flagged
        )
        self.retry_count, self.kill_count = loss.counts.retry_count, loss.counts.kill_count
        self.loss_count, self.runs_alone = loss.counts.loss_count, loss.runs_alone
        self.shared_a_death |= loss.runs_alone
        self.rest(ENDS[loss.move], None if loss.move == "release" else loss.reason)

    def revive(self) -> None:
        self.rest(Status.PENDING)
        self.retry_count = self.kill_count = self.misfits = self.loss_count = 0
        self.flagged, self.was_revived, self.runs_alone = False, True, False


@dataclass
class Lane:
    """A lane: its last request with its answer, the claim in its hand and those it once had."""

    id: LaneId
    request: int = 0
    last: tuple[Answer, dict] | None = None
    held: Claim | None = None
    old: list[Claim] = field(default_factory=list)
    is_known: bool = False  # a store need not remember a lane that never claimed


@dataclass
class Model:
    """All jobs and settings as they must be."""

    pool: PoolId = field(default_factory=some_pool)
    jobs: dict[str, Expected] = field(default_factory=dict)
    keys: dict[str, str] = field(default_factory=dict)
    paused: set[str] = field(default_factory=set)
    limits: dict[str, int] = field(default_factory=dict)
    generations: dict[int, int] = field(default_factory=lambda: dict.fromkeys(SLOTS, 1))
    bars: dict[int, int] = field(default_factory=dict)
    lanes: dict[LaneId, Lane] = field(default_factory=dict)
    totals: Counter[str] = field(default_factory=Counter)

    @property
    def enqueued(self) -> int:
        return self.totals["enqueued"]

    def add(self, job: NewJob, status: Status = Status.PENDING) -> None:
        self.totals["enqueued"] += 1
        self.jobs[job.id] = Expected(
            job.id,
            job.queue,
            job.priority,
            job.max_retries,
            job.max_kills,
            job.unique_key,
            status,
            place=self.enqueued,
        )

    def note_change(self, job: Expected, was: Status, retries: int) -> None:
        """Count what a settlement, a loss or an order did to a job."""
        if job.status is not was and not job.status.is_live:
            self.totals[job.status] += 1
        if job.retry_count > retries:
            self.totals["retried"] += job.status.is_live

    def holder_of(self, unique_key: str | None) -> Expected | None:
        if unique_key is None:
            return None
        return next((j for j in self.jobs.values() if j.unique_key == unique_key and j.status.is_live), None)

    def is_full(self, queue: str, count: int = 1) -> bool:
        limit = self.limits.get(queue, 0)
        pending = sum(job.queue == queue and job.status is Status.PENDING for job in self.jobs.values())
        return limit > 0 and pending + count > limit

    def lane(self, slot: int, lane: int) -> Lane:
        lane_id = LaneId(WorkerId(self.pool, slot, self.generations[slot]), lane)
        return self.lanes.setdefault(lane_id, Lane(lane_id))

    def is_barred(self, lane: LaneId) -> bool:
        return lane.worker.generation <= self.bars.get(lane.worker.slot, 0)

    def held_by(self, lane: LaneId) -> Expected | None:
        return next((job for job in self.jobs.values() if job.holder == lane), None)

    def is_current(self, lane: Lane) -> bool:
        """Whether the claim in this lane's hand is the job's claim."""
        job = lane.held and self.jobs.get(lane.held.job_id)
        return bool(job) and (job.holder, job.claim) == (lane.id, lane.held.claim)

    def candidates(self, want: Want) -> list[Expected]:
        """The jobs of which the next claim must be the first of the highest priority."""
        to_be_had = [
            job
            for job in self.jobs.values()
            if job.status is Status.PENDING
            and job.queue not in self.paused
            and want.min_priority <= job.priority <= want.max_priority
        ]
        if want.is_any:
            return [job for job in to_be_had if job.queue not in want.reserved]
        in_queues = ([job for job in to_be_had if job.queue == queue] for queue in want.queues)
        return next((found for found in in_queues if found), [])

    def check_claim(self, lane: Lane, want: Want, claim: Claim | None) -> None:
        """The claim is the one that must come next; from now on the lane holds it."""
        lane.held, lane.is_known = claim, True
        if held := self.held_by(lane.id):
            assert claim is not None and (claim.job_id, claim.claim) == (held.id, held.claim)
            return
        candidates = self.candidates(want)
        if claim is None:
            assert not candidates, f"{len(candidates)} jobs wait for {want}"
            return
        job = self.jobs[claim.job_id]
        assert job in candidates, f"{job} was not to be had for {want}"
        self._check_order(job, candidates)
        assert claim.claim > job.claim
        assert (claim.retry_count, claim.kill_count, claim.misfits) == (job.retry_count, job.kill_count, job.misfits)
        assert claim.runs_alone or not job.runs_alone
        assert job.shared_a_death or not claim.runs_alone
        job.status, job.holder, job.claim, job.runs_alone = Status.RUNNING, lane.id, claim.claim, False

    @staticmethod
    def _check_order(job: Expected, candidates: list[Expected]) -> None:
        top = max(each.priority for each in candidates)
        assert job.priority == top
        if not job.was_revived:
            equals = [each.place for each in candidates if each.priority == top and not each.was_revived]
            assert job.place == min(equals), "not the oldest of its priority"
