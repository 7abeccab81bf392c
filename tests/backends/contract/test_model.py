"""A store and a simple model of it, driven through the same random moves: they must never disagree."""

from dataclasses import dataclass, field

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from pool.backends.contract import ANY_QUEUE, Backend, Want
from pool.errors import IllegalMove, LaneBarred, QueueFull, RequestRefused, UniqueConflict
from pool.identity import LaneId, WorkerId
from pool.jobs.job import Claim, Outcome
from pool.jobs.lifecycle import Reason, Status
from pool.jobs.retry import Counts, after_loss
from tests.helpers.builders import (
    LATER_SECONDS,
    departure,
    failure,
    new_job,
    settlement,
    some_pool,
    without_clock,
)
from tests.helpers.stores import Place

CI_STEPS = {"max_examples": 50, "stateful_step_count": 40}
FULL_STEPS = {"max_examples": 400, "stateful_step_count": 150}

QUEUES = ("a", "b", "c")
WANTS = (
    Want(),
    Want(("b", "a")),
    Want(("c",), min_priority=10),
    Want(ANY_QUEUE, max_priority=10),
    Want(reserved=("a",)),
)
SLOTS = (0, 1)
LANES = (0, 1)
_S = Status


@dataclass
class Expected:
    """What the model believes of a job."""

    id: str
    queue: str
    priority: int
    place: int
    max_retries: int
    max_kills: int
    unique_key: str | None
    status: Status
    retry_count: int = 0
    kill_count: int = 0
    loss_count: int = 0
    misfits: int = 0
    claim: int = 0
    holder: LaneId | None = None
    flagged: bool = False
    reason: Reason | None = None
    runs_alone: bool = False
    was_revived: bool = False

    def rest(self, status: Status, reason: Reason | None = None) -> None:
        self.status, self.reason, self.holder = status, reason, None


@dataclass
class Lane:
    """A lane as the model knows it: its last request, the claim in its hand and those it once had."""

    id: LaneId
    request: int = 0
    last: object = None
    held: Claim | None = None
    old: list[Claim] = field(default_factory=list)


class StoreMachine(RuleBasedStateMachine):
    """Every rule makes one move on both and compares the answers; the invariant compares what rests where."""

    open_store: "staticmethod[[], Backend]"

    def __init__(self) -> None:
        super().__init__()
        self.store = type(self).open_store()
        self.pool = some_pool()
        self.jobs: dict[str, Expected] = {}
        self.order: list[str] = []
        self.keys: dict[str, str] = {}
        self.paused: set[str] = set()
        self.limits: dict[str, int] = {}
        self.generations = dict.fromkeys(SLOTS, 1)
        self.bars: dict[int, int] = {}
        self.lanes: dict[LaneId, Lane] = {}
        self.places = 0
        self.enqueued = 0

    def teardown(self) -> None:
        for job in self.jobs.values():
            self._compare(job)
        self.store.close()

    # ------------------------------------------------------------ intake

    @rule(
        queue=st.sampled_from(QUEUES),
        priority=st.sampled_from((0, 10, 20)),
        max_retries=st.sampled_from((0, 1, 3)),
        unique_key=st.sampled_from((None, None, "u", "v")),
        is_delayed=st.sampled_from((False, False, False, True)),
    )
    def enqueue(self, queue, priority, max_retries, unique_key, is_delayed) -> None:
        job = new_job(
            queue=queue,
            priority=priority,
            max_retries=max_retries,
            max_kills=2,
            unique_key=unique_key,
            delay=LATER_SECONDS if is_delayed else 0.0,
        )
        holder = self._holder(unique_key)
        if holder is None and self._is_full(queue):
            with pytest.raises(QueueFull):
                self.store.enqueue([job])
            return
        [receipt] = self.store.enqueue([job])
        if holder:
            assert (receipt.job_id, receipt.replayed, receipt.status) == (holder.id, True, holder.status)
            return
        status = _S.SCHEDULED if is_delayed else _S.PENDING
        assert (receipt.job_id, receipt.replayed, receipt.status) == (job.id, False, status)
        self._add(Expected(job.id, queue, priority, 0, max_retries, 2, unique_key, status))

    @rule(count=st.integers(1, 4), key=st.sampled_from(("k1", "k2", None)))
    def enqueue_batch(self, count, key) -> None:
        batch = [new_job(queue="b") for _ in range(count)]
        batch.append(new_job(queue="a", idempotency_key=key, owner="shop"))
        known = self.keys.get(key) if key else None
        if self._is_full("b", count) or (known is None and self._is_full("a")):
            with pytest.raises(QueueFull):
                self.store.enqueue(batch)
            return
        receipts = self.store.enqueue(batch)
        assert [r.job_id for r in receipts] == [*[job.id for job in batch[:-1]], known or batch[-1].id]
        for job in batch[:-1] if known else batch:
            self._add(Expected(job.id, job.queue, 10, 0, 3, 3, None, _S.PENDING))
        if key:
            self.keys[key] = known or batch[-1].id

    @precondition(lambda self: self.order)
    @rule(data=st.data())
    def cancel(self, data) -> None:
        job = self._some_job(data)
        if job.status in (_S.SCHEDULED, _S.PENDING):
            self.store.cancel(job.id)
            job.rest(_S.CANCELLED, Reason.CANCELLED)
        elif job.status is _S.RUNNING:
            assert self.store.cancel(job.id).cancel_requested
            job.flagged = True
        else:
            with pytest.raises(IllegalMove):
                self.store.cancel(job.id)
        self._compare(job)

    @precondition(lambda self: self.order)
    @rule(data=st.data())
    def revive(self, data) -> None:
        job = self._some_job(data)
        holder = self._holder(job.unique_key)
        if job.status not in (_S.FAILED, _S.CANCELLED):
            with pytest.raises(IllegalMove):
                self.store.revive(job.id)
        elif holder:
            with pytest.raises(UniqueConflict):
                self.store.revive(job.id)
        else:
            self.store.revive(job.id)
            job.rest(_S.PENDING)
            job.retry_count = job.kill_count = job.misfits = job.loss_count = 0
            job.flagged, job.was_revived, job.runs_alone = False, True, False
        self._compare(job)

    @precondition(lambda self: self.order)
    @rule(data=st.data())
    def discard(self, data) -> None:
        job = self._some_job(data)
        if job.status is _S.FAILED:
            self.store.discard(job.id)
            job.rest(_S.CANCELLED, Reason.DISCARDED)
        else:
            with pytest.raises(IllegalMove):
                self.store.discard(job.id)
        self._compare(job)

    @rule(queue=st.sampled_from(QUEUES), paused=st.booleans())
    def pause_or_resume(self, queue, paused) -> None:
        self.store.set_queue(queue, paused=paused)
        (self.paused.add if paused else self.paused.discard)(queue)

    @rule(queue=st.sampled_from(QUEUES), limit=st.sampled_from((0, 0, 3)))
    def limit(self, queue, limit) -> None:
        self.store.set_queue(queue, max_pending=limit)
        self.limits[queue] = limit

    @rule(queue=st.sampled_from(QUEUES), status=st.sampled_from(tuple(_S)))
    def purge(self, queue, status) -> None:
        doomed = [j for j in self.jobs.values() if j.queue == queue and j.status is status and status is not _S.RUNNING]
        assert self.store.purge(queue, statuses=frozenset({status})) == len(doomed)
        for job in doomed:
            del self.jobs[job.id]
            self.order.remove(job.id)

    # ------------------------------------------------------------ work

    @rule(slot=st.sampled_from(SLOTS), lane=st.sampled_from(LANES), want=st.sampled_from(WANTS))
    def claim(self, slot, lane, want) -> None:
        hand = self._lane(slot, lane)
        hand.request += 1
        if self._is_barred(hand.id):
            with pytest.raises(LaneBarred):
                self.store.exchange(hand.id, hand.request, want=want)
            hand.last = None
            return
        self._check_claim(hand, want, self._held_by(hand.id), self.store.exchange(hand.id, hand.request, want=want))

    @rule(
        slot=st.sampled_from(SLOTS),
        lane=st.sampled_from(LANES),
        outcome=st.sampled_from([o for o in Outcome if o is not Outcome.LOST]),
        delay=st.sampled_from((0.0, LATER_SECONDS)),
        want=st.sampled_from((None, *WANTS)),
        children=st.integers(0, 2),
    )
    def settle(self, slot, lane, outcome, delay, want, children) -> None:
        hand = self._lane(slot, lane)
        if hand.held is None:
            return
        young = tuple(new_job(queue="c") for _ in range(children))
        word = settlement(
            hand.held,
            outcome,
            delay=delay,
            reason=Reason.FATAL_ERROR if outcome is Outcome.FAILED else None,
            cause=failure(),
            children=young,
        )
        job = self.jobs.get(hand.held.job_id)
        is_current = job is not None and (job.holder, job.claim) == (hand.id, hand.held.claim)
        hand.request += 1
        barred = self._is_barred(hand.id) and want is not None
        if barred:
            with pytest.raises(LaneBarred):
                self.store.exchange(hand.id, hand.request, settlement=word, want=want)
            hand.last = None
        else:
            answer = self.store.exchange(hand.id, hand.request, settlement=word, want=want)
            assert answer.settled is is_current
        hand.old.append(hand.held)
        hand.held = None
        if is_current and job:
            self._settled(job, outcome, delay)
            for child in young:
                self._add(Expected(child.id, "c", 10, 0, 3, 3, None, _S.PENDING))
        if not barred:
            hand.last = (answer, {"settlement": word, "want": want})
            if want is not None:
                self._check_claim(hand, want, self._held_by(hand.id), answer)
        if job:
            self._compare(job)

    @rule(
        slot=st.sampled_from(SLOTS),
        lane=st.sampled_from(LANES),
        outcome=st.sampled_from((Outcome.COMPLETED, Outcome.RETRIED)),
    )
    def settle_late(self, slot, lane, outcome) -> None:
        hand = self._lane(slot, lane)
        if not hand.old:
            return
        hand.request += 1
        answer = self.store.exchange(hand.id, hand.request, settlement=settlement(hand.old[-1], outcome))
        hand.last = None
        if hand.old[-1].job_id in self.jobs:
            self._compare(self.jobs[hand.old[-1].job_id])
        assert answer.claim is None

    @rule(slot=st.sampled_from(SLOTS), lane=st.sampled_from(LANES))
    def repeat(self, slot, lane) -> None:
        hand = self._lane(slot, lane)
        if hand.last is None or self._is_barred(hand.id):
            return
        answer, asked = hand.last
        again = self.store.exchange(hand.id, hand.request, **asked)
        assert again.settled is answer.settled
        assert without_clock(again.claim) == without_clock(answer.claim)

    @rule(slot=st.sampled_from(SLOTS), lane=st.sampled_from(LANES))
    def repeat_an_older_one(self, slot, lane) -> None:
        hand = self._lane(slot, lane)
        if hand.request < 2 or self._is_barred(hand.id):
            return
        with pytest.raises(RequestRefused):
            self.store.exchange(hand.id, hand.request - 1, want=WANTS[0])

    @rule(slot=st.sampled_from(SLOTS), lane=st.sampled_from(LANES))
    def say_it_as_another_lane(self, slot, lane) -> None:
        hand, other = self._lane(slot, lane), self._lane(slot, 1 - lane)
        if hand.held is None:
            return
        other.request += 1
        other.last = None
        assert self.store.exchange(other.id, other.request, settlement=settlement(hand.held)).settled is False

    # ------------------------------------------------------------ upkeep

    @rule(
        slot=st.sampled_from(SLOTS),
        reason=st.sampled_from((Reason.WORKER_LOST, Reason.TIMEOUT, Reason.MEMORY_LIMIT, Reason.INTERRUPTED)),
        started=st.sampled_from(("all", "none", "first", "unknown")),
        bar=st.sampled_from((True, True, False)),
    )
    def recover(self, slot, reason, started, bar) -> None:
        worker = WorkerId(self.pool, slot, self.generations[slot])
        held = {lane: self._held_by(LaneId(worker, lane)) for lane in LANES}
        held = {lane: job for lane, job in held.items() if job}
        marks = self._started(held, started)
        taken = self.store.recover(departure(worker, reason, started=marks, bar=bar))
        assert {each.job_id for each in taken} == {job.id for job in held.values()}
        shared = marks is not None and len(marks) > 1
        for lane, job in held.items():
            self._lost(job, reason, marks is None or marks.get(lane) == job.claim, marks is None, shared)
            self._compare(job)
        if bar:
            self.bars[slot] = max(self.bars.get(slot, 0), self.generations[slot])
            self.generations[slot] += 1

    @rule()
    def forget_nothing(self) -> None:
        assert self.store.forget(completed_s=1e9, failed_s=1e9, idempotency_s=1e9) == 0

    @rule()
    def promote_nothing(self) -> None:
        assert self.store.promote().moved == 0

    @invariant()
    def counts_agree(self) -> None:
        for queue in self.store.queues():
            mine = [job.status for job in self.jobs.values() if job.queue == queue.name]
            assert (queue.pending, queue.scheduled, queue.running, queue.completed, queue.failed) == tuple(
                mine.count(s) for s in (_S.PENDING, _S.SCHEDULED, _S.RUNNING, _S.COMPLETED, _S.FAILED)
            )
            assert queue.paused is (queue.name in self.paused)
        assert self.store.statistics().enqueued == self.enqueued

    # ------------------------------------------------------------ the model

    def _add(self, job: Expected) -> None:
        self.places += 1
        self.enqueued += 1
        job.place = self.places
        self.jobs[job.id] = job
        self.order.append(job.id)

    def _some_job(self, data) -> Expected:
        return self.jobs[self.order[data.draw(st.integers(0, len(self.order) - 1))]]

    def _holder(self, unique_key: str | None) -> Expected | None:
        if unique_key is None:
            return None
        return next((j for j in self.jobs.values() if j.unique_key == unique_key and j.status.is_live), None)

    def _is_full(self, queue: str, count: int = 1) -> bool:
        limit = self.limits.get(queue, 0)
        pending = sum(job.queue == queue and job.status is _S.PENDING for job in self.jobs.values())
        return limit > 0 and pending + count > limit

    def _lane(self, slot: int, lane: int) -> Lane:
        lane_id = LaneId(WorkerId(self.pool, slot, self.generations[slot]), lane)
        return self.lanes.setdefault(lane_id, Lane(lane_id))

    def _is_barred(self, lane: LaneId) -> bool:
        return lane.worker.generation <= self.bars.get(lane.worker.slot, 0)

    def _held_by(self, lane: LaneId) -> Expected | None:
        return next((j for j in self.jobs.values() if j.holder == lane), None)

    def _candidates(self, want: Want) -> list[Expected]:
        open_ = [
            job
            for job in self.jobs.values()
            if job.status is _S.PENDING
            and job.queue not in self.paused
            and want.min_priority <= job.priority <= want.max_priority
        ]
        if want.is_any:
            return [job for job in open_ if job.queue not in want.reserved]
        for queue in want.queues:
            if mine := [job for job in open_ if job.queue == queue]:
                return mine
        return []

    def _check_claim(self, hand: Lane, want: Want, held: Expected | None, answer) -> None:
        hand.last = (answer, {"want": want}) if hand.last is None or answer.settled is None else hand.last
        claim = answer.claim
        if held is not None:
            assert claim is not None and (claim.job_id, claim.claim) == (held.id, held.claim)
            hand.held = claim
            return
        hand.held = claim
        candidates = self._candidates(want)
        if claim is None:
            assert not candidates, f"{len(candidates)} jobs wait for {want}"
            return
        job = self.jobs[claim.job_id]
        assert job in candidates, f"{job} was not to be had for {want}"
        top = max(each.priority for each in candidates)
        assert job.priority == top
        if not job.was_revived:  # where a revived job stands among its equals is not promised
            first = min(each.place for each in candidates if each.priority == top and not each.was_revived)
            assert job.place == first
        assert claim.claim > job.claim
        assert (claim.retry_count, claim.kill_count, claim.misfits) == (job.retry_count, job.kill_count, job.misfits)
        assert claim.runs_alone is job.runs_alone
        job.status, job.holder, job.claim, job.runs_alone = _S.RUNNING, hand.id, claim.claim, False

    def _settled(self, job: Expected, outcome: Outcome, delay: float) -> None:
        if outcome is Outcome.COMPLETED:
            job.rest(_S.COMPLETED)
        elif outcome is Outcome.FAILED:
            job.rest(_S.FAILED, Reason.FATAL_ERROR)
        elif outcome is Outcome.CANCELLED or job.flagged:
            job.rest(_S.CANCELLED, Reason.CANCELLED)
        else:
            job.retry_count += outcome is Outcome.RETRIED
            job.rest(_S.SCHEDULED if delay else _S.PENDING)

    @staticmethod
    def _started(held: dict[int, Expected], mode: str) -> dict[int, int] | None:
        marks = {lane: job.claim for lane, job in held.items()}
        if mode == "unknown":
            return None
        if mode == "none":
            return {}
        return marks if mode == "all" else dict(list(marks.items())[:1])

    @staticmethod
    def _lost(job: Expected, reason: Reason, started: bool, board_lost: bool, shared: bool) -> None:
        counts = Counts(job.retry_count, job.max_retries, job.kill_count, job.max_kills, job.loss_count)
        loss = after_loss(
            counts, reason, started=started, board_lost=board_lost, shared=shared, cancel_requested=job.flagged
        )
        job.retry_count, job.kill_count = loss.counts.retry_count, loss.counts.kill_count
        job.loss_count, job.runs_alone = loss.counts.loss_count, loss.runs_alone
        ends = {"release": _S.PENDING, "fail": _S.FAILED, "abandon": _S.CANCELLED}
        job.rest(ends[loss.move], None if loss.move == "release" else loss.reason)

    def _compare(self, job: Expected) -> None:
        seen = self.store.job(job.id)
        assert (seen.status, seen.retry_count, seen.kill_count, seen.loss_count, seen.claim) == (
            job.status,
            job.retry_count,
            job.kill_count,
            job.loss_count,
            job.claim,
        )
        assert seen.worker_id == (str(job.holder) if job.holder else None)
        if job.status in (_S.FAILED, _S.CANCELLED):
            assert seen.reason is job.reason


def _drive(place: Place, tmp_path, **steps: int) -> None:
    from dataclasses import replace

    houses = iter(range(1_000_000))

    def open_store() -> Backend:
        number = next(houses)
        if place.kind == "sqlite":
            return replace(place, url=f"sqlite:///{tmp_path}/house-{number}.db").open()
        return replace(place, namespace=f"{place.namespace}-{number}").open()

    machine = type("Machine", (StoreMachine,), {"open_store": staticmethod(open_store)})
    quiet = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
    run_state_machine_as_test(
        machine,
        settings=settings(
            deadline=None, suppress_health_check=quiet, derandomize=True, database=None, print_blob=False, **steps
        ),
    )


@pytest.mark.timeout(300)
def test_store_and_model_agree_over_two_thousand_moves(place: Place, tmp_path) -> None:
    _drive(place, tmp_path, **CI_STEPS)


@pytest.mark.full
@pytest.mark.timeout(3600)
def test_store_and_model_agree_over_sixty_thousand_moves(place: Place, tmp_path) -> None:
    _drive(place, tmp_path, **FULL_STEPS)
