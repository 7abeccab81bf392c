"""A store and a simple model of it, driven through the same random moves: they must never disagree."""

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest

from pool.backends.contract import ANY_QUEUE, Backend, Want
from pool.errors import IllegalMove, LaneBarred, QueueFull, RequestRefused, UniqueConflict
from pool.identity import LaneId, WorkerId
from pool.jobs.job import Outcome
from pool.jobs.lifecycle import Reason, Status
from tests.backends.contract.model import LANES, SLOTS, Expected, Lane, Model
from tests.helpers.builders import LATER_SECONDS, departure, failure, new_job, settlement, without_clock
from tests.helpers.stores import Place

QUEUES = ("a", "b", "c")
WANTS = (
    Want(),
    Want(),
    Want(("b", "a")),
    Want(("c",), min_priority=10),
    Want(ANY_QUEUE, max_priority=10),
    Want(reserved=("a",)),
)
SETTLEMENTS = [outcome for outcome in Outcome if outcome is not Outcome.LOST]
LOSSES = (Reason.WORKER_LOST, Reason.WORKER_LOST, Reason.TIMEOUT, Reason.MEMORY_LIMIT, Reason.INTERRUPTED)


class Driver:
    """Makes one move at a time on store and model, compares the answers and then all counts."""

    @property
    def weights(self) -> dict[str, int]:
        """How often each move is made."""
        return WEIGHTS

    def __init__(self, store: Backend, seed: str) -> None:
        self.store, self.model, self.rng = store, Model(), random.Random(seed)
        self.made: Counter[str] = Counter()
        self.story: list[str] = []

    def run(self, steps: int) -> None:
        names, weights = zip(*self.weights.items(), strict=True)
        try:
            for _ in range(steps):
                name = self.rng.choices(names, weights)[0]
                self.story.append(name)
                getattr(self, name)()
                self.compare_counts()
            for job in self.model.jobs.values():
                self.compare(job)
        except BaseException as error:
            error.add_note("the last moves: " + ", ".join(self.story[-40:]))
            raise

    # ------------------------------------------------------------ intake

    def enqueue(self) -> None:
        job = new_job(
            queue=self.rng.choice(QUEUES),
            priority=self.rng.choice((0, 10, 10, 20)),
            max_retries=self.rng.choice((0, 1, 3)),
            max_kills=2,
            unique_key=self.rng.choice((None, None, None, "u", "v")),
            delay=self.rng.choice((0.0, 0.0, 0.0, LATER_SECONDS)),
        )
        holder = self.model.holder_of(job.unique_key)
        if holder:
            [receipt] = self.store.enqueue([job])
            assert (receipt.job_id, receipt.replayed, receipt.status) == (holder.id, True, holder.status)
        elif self.model.is_full(job.queue) and not job.delay:
            with pytest.raises(QueueFull):
                self.store.enqueue([job])
        elif not self.model.is_full(job.queue):
            [receipt] = self.store.enqueue([job])
            status = Status.SCHEDULED if job.delay else Status.PENDING
            assert (receipt.job_id, receipt.replayed, receipt.status) == (job.id, False, status)
            self.model.add(job, status)

    def enqueue_batch(self) -> None:
        key = self.rng.choice(("k1", "k2", "k3"))
        batch = [new_job(queue="b") for _ in range(self.rng.randint(1, 4))]
        batch.append(new_job(queue="a", idempotency_key=key, owner="shop"))
        known = self.model.keys.get(key)
        if self.model.is_full("b", len(batch) - 1) or (known is None and self.model.is_full("a")):
            with pytest.raises(QueueFull):
                self.store.enqueue(batch)
            return
        receipts = self.store.enqueue(batch)
        assert [receipt.job_id for receipt in receipts] == [*[job.id for job in batch[:-1]], known or batch[-1].id]
        for job in batch[:-1] if known else batch:
            self.model.add(job)
        self.model.keys[key] = known or batch[-1].id

    def cancel(self) -> None:
        job = self.some_job()
        if job is None:
            return
        if job.status is Status.RUNNING:
            assert self.store.cancel(job.id).cancel_requested
            job.flagged = True
        elif job.status.is_live:
            self.store.cancel(job.id)
            self.change(job, lambda: job.rest(Status.CANCELLED, Reason.CANCELLED))
        else:
            with pytest.raises(IllegalMove):
                self.store.cancel(job.id)
        self.compare(job)

    def revive(self) -> None:
        job = self.some_job(Status.FAILED, Status.CANCELLED)
        if job is None:
            return
        if job.status not in (Status.FAILED, Status.CANCELLED):
            with pytest.raises(IllegalMove):
                self.store.revive(job.id)
        elif self.model.holder_of(job.unique_key):
            with pytest.raises(UniqueConflict):
                self.store.revive(job.id)
        else:
            self.store.revive(job.id)
            job.revive()
        self.compare(job)

    def discard(self) -> None:
        job = self.some_job(Status.FAILED)
        if job is None:
            return
        if job.status is Status.FAILED:
            self.store.discard(job.id)
            self.change(job, lambda: job.rest(Status.CANCELLED, Reason.DISCARDED))
        else:
            with pytest.raises(IllegalMove):
                self.store.discard(job.id)
        self.compare(job)

    def pause_or_resume(self) -> None:
        queue, paused = self.rng.choice(QUEUES), self.rng.random() < 0.3
        self.store.set_queue(queue, paused=paused)
        (self.model.paused.add if paused else self.model.paused.discard)(queue)

    def limit(self) -> None:
        queue, limit = self.rng.choice(QUEUES), self.rng.choice((0, 0, 0, 3))
        self.store.set_queue(queue, max_pending=limit)
        self.model.limits[queue] = limit

    def purge(self) -> None:
        queue, status = self.rng.choice(QUEUES), self.rng.choice(list(Status))
        doomed = [
            job
            for job in self.model.jobs.values()
            if job.queue == queue and job.status is status and status is not Status.RUNNING
        ]
        removed = 0
        while count := self.store.purge(queue, statuses=frozenset({status}), limit=3):
            removed += count
        assert removed == len(doomed)
        for job in doomed:
            del self.model.jobs[job.id]

    # ------------------------------------------------------------ work

    def claim(self) -> None:
        lane, want = self.some_lane(), self.rng.choice(WANTS)
        lane.request += 1
        if self.model.is_barred(lane.id):
            with pytest.raises(LaneBarred):
                self.store.exchange(lane.id, lane.request, want=want)
            lane.last = None
            return
        answer = self.store.exchange(lane.id, lane.request, want=want)
        lane.last = (answer, {"want": want})
        self.model.check_claim(lane, want, answer.claim)
        self.made["claimed"] += answer.claim is not None

    def settle(self) -> None:
        lane = self.some_lane(holding=True)
        if lane.held is None:
            return
        outcome, want = self.rng.choice(SETTLEMENTS), self.rng.choice((None, *WANTS))
        children = tuple(new_job(queue="c") for _ in range(self.rng.choice((0, 0, 1, 2))))
        delay, misfit = self.rng.choice((0.0, 0.0, LATER_SECONDS)), self.rng.random() < 0.3
        reason = Reason.FATAL_ERROR if outcome is Outcome.FAILED else None
        fields = {"reason": reason, "delay": delay, "children": children, "cause": failure()}
        word = settlement(lane.held, outcome, misfit=misfit and outcome is Outcome.RETURNED, **fields)
        job, is_current = self.model.jobs.get(lane.held.job_id), self.model.is_current(lane)
        lane.request += 1
        lane.old.append(lane.held)
        lane.held = None
        if is_current and job:
            self.change(job, lambda: job.settle(outcome, delay, word.misfit))
            for child in children:
                self.model.add(child)
        self.made[outcome if is_current else "refused"] += 1
        self._say(lane, is_current, {"settlement": word, "want": want})
        if job and job.id in self.model.jobs:
            self.compare(job)

    def _say(self, lane: Lane, is_current: bool, asked: dict) -> None:
        if self.model.is_barred(lane.id) and asked["want"] is not None:
            with pytest.raises(LaneBarred):
                self.store.exchange(lane.id, lane.request, **asked)
            lane.last = None
            return
        answer = self.store.exchange(lane.id, lane.request, **asked)
        assert answer.settled is is_current
        lane.last = (answer, asked)
        if asked["want"] is not None:
            self.model.check_claim(lane, asked["want"], answer.claim)

    def settle_late(self) -> None:
        lane = self.some_lane()
        if not lane.old:
            return
        lane.request += 1
        lane.last = None
        late = self.rng.choice(lane.old)
        self.store.exchange(lane.id, lane.request, settlement=settlement(late, Outcome.RETRIED))
        if late.job_id in self.model.jobs:
            self.compare(self.model.jobs[late.job_id])
        self.made["late"] += 1

    def repeat(self) -> None:
        lane = self.some_lane()
        if lane.last is None or self.model.is_barred(lane.id):
            return
        answer, asked = lane.last
        again = self.store.exchange(lane.id, lane.request, **asked)
        assert again.settled is answer.settled
        if answer.claim is None or self.model.is_current(lane):  # what was taken back since is the fence's matter
            assert without_clock(again.claim) == without_clock(answer.claim)
        self.made["repeated"] += 1

    def repeat_an_older_one(self) -> None:
        lane = self.some_lane()
        if lane.request < 2 or not lane.is_known or self.model.is_barred(lane.id):
            return
        with pytest.raises(RequestRefused):
            self.store.exchange(lane.id, lane.request - 1, want=WANTS[0])
        self.made["older"] += 1

    def say_it_as_another_lane(self) -> None:
        lane = self.some_lane(holding=True)
        if lane.held is None:
            return
        other = self.model.lane(lane.id.worker.slot, 1 - lane.id.lane)
        other.request += 1
        other.last = None
        assert self.store.exchange(other.id, other.request, settlement=settlement(lane.held)).settled is False

    # ------------------------------------------------------------ upkeep

    def recover(self) -> None:
        slot, reason = self.rng.choice(SLOTS), self.rng.choice(LOSSES)
        worker = WorkerId(self.model.pool, slot, self.model.generations[slot])
        held = {lane: self.model.held_by(LaneId(worker, lane)) for lane in LANES}
        held = {lane: job for lane, job in held.items() if job}
        marks, bar = self._marks(held), self.rng.random() < 0.6
        taken = self.store.recover(departure(worker, reason, started=marks, bar=bar))
        if taken is not None:  # its answer may have been lost
            assert {each.job_id for each in taken} == {job.id for job in held.values()}
        shared = marks is not None and len(marks) > 1
        for lane, job in held.items():
            started = marks is None or lane in marks
            facts = {"started": started, "board_lost": marks is None, "shared": shared}
            self.change(job, partial(job.lose, reason, **facts))
            self.compare(job)
            self.made["lost"] += 1
        if bar:
            self.model.bars[slot] = self.model.generations[slot]
            self.model.generations[slot] += self.rng.random() < 0.9

    def _marks(self, held: dict[int, Expected]) -> dict[int, int] | None:
        marks = {lane: job.claim for lane, job in held.items()}
        return self.rng.choice((marks, marks, dict(list(marks.items())[:1]), {}, None))

    def forget_nothing(self) -> None:
        assert self.store.forget(completed_s=1e9, failed_s=1e9, idempotency_s=1e9) == 0

    def promote_nothing(self) -> None:
        assert self.store.promote().moved == 0

    # ------------------------------------------------------------ choosing and comparing

    def some_job(self, *rather: Status) -> Expected | None:
        jobs = list(self.model.jobs.values())
        fitting = [job for job in jobs if job.status in rather]
        pick = fitting if fitting and self.rng.random() < 0.8 else jobs
        return self.rng.choice(pick) if pick else None

    def some_lane(self, holding: bool = False) -> Lane:
        lanes = [self.model.lane(slot, lane) for slot in SLOTS for lane in LANES]
        fitting = [lane for lane in lanes if lane.held is not None]
        return self.rng.choice(fitting if holding and fitting else lanes)

    def change(self, job: Expected, how: Callable[[], None]) -> None:
        """Make a change in the model and count it as the store must."""
        was, retries = job.status, job.retry_count
        how()
        self.model.note_change(job, was, retries)

    def compare(self, job: Expected) -> None:
        seen = self.store.job(job.id)
        counts = (seen.retry_count, seen.kill_count, seen.loss_count, seen.claim)
        assert (seen.status, *counts) == (job.status, job.retry_count, job.kill_count, job.loss_count, job.claim)
        if job.status.is_live:
            assert seen.misfits == job.misfits
        assert seen.worker_id == (str(job.holder) if job.holder else None)
        if job.status in (Status.FAILED, Status.CANCELLED):
            assert seen.reason is job.reason

    def compare_counts(self) -> None:
        order = (Status.PENDING, Status.SCHEDULED, Status.RUNNING, Status.COMPLETED, Status.FAILED)
        for queue in self.store.queues():
            mine = Counter(job.status for job in self.model.jobs.values() if job.queue == queue.name)
            seen = (queue.pending, queue.scheduled, queue.running, queue.completed, queue.failed)
            assert seen == tuple(mine[status] for status in order), queue.name
            assert queue.paused is (queue.name in self.model.paused)
        numbers, totals = self.store.statistics(), self.model.totals
        for name in ("enqueued", "completed", "failed", "cancelled", "retried"):
            assert getattr(numbers, name) == totals[name], name


WEIGHTS = {
    "enqueue": 10,
    "enqueue_batch": 2,
    "claim": 12,
    "settle": 12,
    "settle_late": 2,
    "repeat": 4,
    "repeat_an_older_one": 1,
    "say_it_as_another_lane": 1,
    "recover": 4,
    "cancel": 3,
    "revive": 3,
    "discard": 1,
    "pause_or_resume": 2,
    "limit": 1,
    "purge": 1,
    "forget_nothing": 1,
    "promote_nothing": 1,
}


@pytest.fixture
def houses(place: Place, tmp_path) -> Callable[[str], Backend]:
    """Opens a further empty store of this kind."""

    def build(name: str) -> Backend:
        if place.kind == "sqlite":
            elsewhere = replace(place, url=f"sqlite:///{tmp_path}/{name}.db")
        else:
            elsewhere = replace(place, namespace=f"{place.namespace}-{name}")
        return elsewhere.open()

    return build


def _drive(houses: Callable[[str], Backend], rounds: int, steps: int) -> Counter[str]:
    made: Counter[str] = Counter()
    for number in range(rounds):
        driver = Driver(houses(f"house-{number}"), seed=f"seed {number}")
        driver.run(steps)
        made += driver.made
    return made


def test_store_and_model_agree_over_two_thousand_moves(houses) -> None:
    made = _drive(houses, rounds=10, steps=200)
    rare = [
        what for what in (*SETTLEMENTS, "claimed", "lost", "refused", "late", "repeated", "older") if made[what] < 10
    ]
    assert not rare, f"the drive hardly tried {rare}: {made}"


@pytest.mark.full
@pytest.mark.timeout(3600)
def test_store_and_model_agree_over_a_hundred_thousand_moves(houses) -> None:
    _drive(houses, rounds=200, steps=500)
