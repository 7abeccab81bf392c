"""The people and things of a test: jobs to enqueue, pools, workers, and hands that work as a lane does."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from pool.backends.contract import ANY_QUEUE, Answer, Backend, Beat, Departure, Held, Want
from pool.identity import LaneId, PoolId, ProcessMark, WorkerId, new_pool_id, process_mark
from pool.jobs.ids import new_job_id
from pool.jobs.job import Cause, Claim, Job, NewJob, Outcome, Settlement
from pool.jobs.lifecycle import Reason, Status

ANYTHING = Want(ANY_QUEUE)
LATER_SECONDS = 86_400.0


def new_job(**fields: Any) -> NewJob:
    """A job nobody has seen yet; every field can be given."""
    return NewJob(**{"id": new_job_id(), "type": "tests.work", **fields})


def new_jobs(count: int, **fields: Any) -> list[NewJob]:
    return [new_job(**fields) for _ in range(count)]


def put(store: Backend, **fields: Any) -> str:
    """Enqueue one job and return its id."""
    return store.enqueue([new_job(**fields)])[0].job_id


def some_pool(name: str = "house") -> PoolId:
    return new_pool_id(name)


def worker(pool: PoolId | None = None, *, slot: int = 0, generation: int = 1) -> WorkerId:
    return WorkerId(pool or some_pool(), slot, generation)


def failure(text: str = "it broke", reason: Reason | None = None) -> Cause:
    return Cause(reason=reason, exception="ValueError", text=text)


def settlement(claim: Claim, outcome: Outcome = Outcome.COMPLETED, **fields: Any) -> Settlement:
    """What the holder of `claim` says of its job."""
    return Settlement(**{"job_id": claim.job_id, "claim": claim.claim, "outcome": outcome, **fields})


class Hand:
    """A lane at work: it numbers its requests as a worker does and remembers what it holds."""

    def __init__(self, store: Backend, lane: LaneId | None = None) -> None:
        self.store = store
        self.lane = lane or LaneId(worker())
        self.request = 0
        self.held: Claim | None = None

    def claim(self, want: Want = ANYTHING) -> Claim | None:
        """The next job for this lane, or None."""
        return self.exchange(want=want).claim

    def take(self, want: Want = ANYTHING) -> Claim:
        """The next job; a test that calls this knows that there is one."""
        claim = self.claim(want)
        assert claim is not None, f"nothing to claim for {want}"
        return claim

    def settle(self, outcome: Outcome = Outcome.COMPLETED, *, want: Want | None = None, **fields: Any) -> Answer:
        """Settle what it holds, and claim the next with `want`."""
        assert self.held is not None, "this hand holds nothing"
        return self.exchange(settlement=settlement(self.held, outcome, **fields), want=want)

    def complete(self) -> bool | None:
        return self.settle(started_at=self.store.server_now()).settled

    def fail(self, reason: Reason = Reason.FATAL_ERROR) -> bool | None:
        cause = failure(reason=reason)
        return self.settle(Outcome.FAILED, reason=reason, cause=cause, started_at=self.store.server_now()).settled

    def retry(self, delay: float = 0.0) -> bool | None:
        return self.settle(Outcome.RETRIED, delay=delay, cause=failure(), started_at=self.store.server_now()).settled

    def give_back(self, delay: float = 0.0, **fields: Any) -> bool | None:
        return self.settle(Outcome.RETURNED, delay=delay, **fields).settled

    def exchange(self, *, settlement: Settlement | None = None, want: Want | None = None) -> Answer:
        """One call under the next request number."""
        self.request += 1
        answer = self.store.exchange(self.lane, self.request, settlement=settlement, want=want)
        if settlement is not None or answer.claim is not None:
            self.held = answer.claim
        return answer

    def as_held(self) -> Held:
        """The line of a beat that says what this hand holds."""
        assert self.held is not None, "this hand holds nothing"
        return Held(self.lane, self.held.job_id, self.held.claim)


def drain(hand: Hand, want: Want = ANYTHING) -> list[str]:
    """Claim and complete until nothing is left; the job ids in the order they were handed out."""
    order: list[str] = []
    answer = hand.exchange(want=want)
    while answer.claim is not None:
        order.append(answer.claim.job_id)
        answer = hand.settle(want=want)
    return order


def departure(who: WorkerId, reason: Reason = Reason.WORKER_LOST, **fields: Any) -> Departure:
    """A worker is gone; by default a SIGKILL that hit nothing in particular (no started job)."""
    signal = 9 if reason is Reason.WORKER_LOST else None
    return Departure(**{"worker": who, "cause": Cause(reason=reason, signal=signal), "started": {}, **fields})


def died_working(*hands: Hand, reason: Reason = Reason.WORKER_LOST, **fields: Any) -> Departure:
    """The worker of these hands died while each of them ran its job."""
    started = {hand.lane.lane: hand.held.claim for hand in hands if hand.held is not None}
    return departure(hands[0].lane.worker, reason, **{"started": started, **fields})


def beat(pool: PoolId, held: Iterable[Held] = (), *, mark: ProcessMark | None = None, **fields: Any) -> Beat:
    base = {"pool": pool, "supervisor": mark or process_mark(), "lease_seconds": 60.0, "held": tuple(held)}
    return Beat(**{**base, **fields})


def dead_mark() -> ProcessMark:
    """The mark of a process of this machine that no longer lives."""
    return replace(process_mark(), start_ticks=1)


def without_clock(claim: Claim | None) -> Claim | None:
    """A claim as stored: without the moment its reply arrived here."""
    return claim and replace(claim, claimed_boottime=0.0)


def numbers_of(job: Job) -> tuple[Status, int, int, int, int]:
    """Status and the counts that losses change: retries, kills, losses, misfits."""
    return job.status, job.retry_count, job.kill_count, job.loss_count, job.misfits
