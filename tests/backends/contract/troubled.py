"""The model of `model.py` with limits, batches and whole pools that die, and the driver that makes all of it happen."""

import random
import sqlite3
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace
from typing import Any

from pool.backends.contract import Held, JobFilter, Want
from pool.identity import LaneId, WorkerId
from pool.jobs.ids import new_job_id
from pool.jobs.job import NewBatch, NewJob, Outcome
from pool.jobs.lifecycle import Reason, Status
from tests.backends.contract.crashes import Shaky
from tests.backends.contract.model import LANES, SLOTS, Expected, Lane, Model
from tests.backends.contract.test_model import QUEUES, WANTS, WEIGHTS, Driver
from tests.helpers.builders import beat, departure, new_job, settlement, some_pool
from tests.helpers.stores import Place
from tests.helpers.until import until

MAX_RUNNING = {"api": 1, "mail": 2}
LEASE_SECONDS, SHORT_LEASE_SECONDS = 60.0, 0.02
SOON_SECONDS = 0.002
SHEAF_SLOT, SHEAF = 7, (0, 1, 2)  # a worker whose lanes call together


@dataclass
class Batch:
    """A batch as it must be: how each member ended that is no longer stored, and what was enqueued for it."""

    members: list[str]
    on_complete: NewJob
    on_success: NewJob
    ends: dict[str, Status] = field(default_factory=dict)
    told: set[str] = field(default_factory=set)


@dataclass
class TroubledModel(Model):
    """Also knows which jobs share a limit, and which form a batch."""

    limited: dict[str, str] = field(default_factory=dict)
    batches: dict[str, Batch] = field(default_factory=dict)
    ghosts: list[Lane] = field(default_factory=list)

    def running_of(self, key: str) -> int:
        return sum(self.limited.get(job.id) == key for job in self.jobs.values() if job.status is Status.RUNNING)

    def has_room(self, job: Expected) -> bool:
        key = self.limited.get(job.id)
        return key is None or self.running_of(key) < MAX_RUNNING[key]

    def candidates(self, want: Want) -> list[Expected]:
        shut = {job.id: job for job in self.jobs.values() if job.status is Status.PENDING and not self.has_room(job)}
        for job in shut.values():
            job.status = Status.SCHEDULED  # out of sight for the question
        try:
            return super().candidates(want)
        finally:
            for job in shut.values():
                job.status = Status.PENDING

    def _check_order(self, job: Expected, candidates: list[Expected]) -> None:  # type: ignore[override]
        """Jobs with a limit have lanes of their own; where these stand among the others is not promised."""
        assert job.priority == max(each.priority for each in candidates)
        if job.id not in self.limited:
            Model._check_order(job, [each for each in candidates if each.id not in self.limited])

    def note_change(self, job: Expected, was: Status, retries: int) -> None:
        super().note_change(job, was, retries)
        self.tell_batches()

    def tell_batches(self) -> None:
        """What follows a batch enters in the step of its last member, once."""
        for batch in self.batches.values():
            ends = [self._end_of(batch, member) for member in batch.members]
            if all(ends) and "complete" not in batch.told:
                batch.told.add("complete")
                self.add(batch.on_complete)
            if all(end is Status.COMPLETED for end in ends) and "success" not in batch.told:
                batch.told.add("success")
                self.add(batch.on_success)

    def _end_of(self, batch: Batch, member: str) -> Status | None:
        job = self.jobs.get(member)
        status = batch.ends[member] if job is None else job.status
        return None if status.is_live else status

    def remove(self, job: Expected) -> None:
        """A job is no longer stored; a live one counts as cancelled in its batch."""
        del self.jobs[job.id]
        for batch in self.batches.values():
            if job.id in batch.members:
                batch.ends[job.id] = Status.CANCELLED if job.status.is_live else job.status

    def all_held(self) -> list[Expected]:
        return [job for job in self.jobs.values() if job.status is Status.RUNNING]

    def begin_anew(self) -> None:
        """The pool is gone; what its lanes still say comes from ghosts."""
        self.ghosts += [lane for lane in self.lanes.values() if lane.held or lane.old]
        self.pool, self.bars, self.generations = some_pool(), {}, dict.fromkeys((*SLOTS, SHEAF_SLOT), 1)
        self.lanes.clear()


class TroubledDriver(Driver):
    """The moves of `Driver` through a shaky store, and those that only harm makes."""

    def __init__(self, place: Place, seed: str, rate: float = 0.35) -> None:
        self.shaky = Shaky(place, random.Random(f"harm {seed}"), rate)
        super().__init__(self.shaky, seed)  # type: ignore[arg-type]
        self.model: TroubledModel = TroubledModel()
        self.model.generations[SHEAF_SLOT] = 1
        self.place = place

    @property
    def weights(self) -> dict[str, int]:
        return TROUBLED_WEIGHTS

    # ------------------------------------------------------------ intake

    def enqueue_limited(self) -> None:
        key = self.rng.choice(list(MAX_RUNNING))
        job = new_job(
            queue=self.rng.choice(QUEUES),
            priority=self.rng.choice((0, 10)),
            max_retries=self.rng.choice((0, 2)),
            limit_key=key,
            limit_running=MAX_RUNNING[key],
        )
        if not self.model.is_full(job.queue):
            self.store.enqueue([job])
            self.model.add(job)
            self.model.limited[job.id] = key

    def enqueue_plain(self) -> None:
        """Some that are next in the line and may be given ahead."""
        jobs = [new_job(queue="d", priority=25) for _ in range(3)]
        self.store.enqueue(jobs)
        for job in jobs:
            self.model.add(job)

    def enqueue_members(self) -> None:
        members = [new_job(queue="a", max_retries=self.rng.choice((0, 1))) for _ in range(self.rng.randint(0, 3))]
        batch = Batch(
            [job.id for job in members], new_job(queue="after", priority=15), new_job(queue="after", priority=16)
        )
        if self.model.is_full("a", len(members)):
            return
        stored = NewBatch(id=new_job_id(), on_complete=batch.on_complete, on_success=batch.on_success)
        self.store.enqueue(members, batch=stored)
        for job in members:
            self.model.add(job)
        self.model.batches[stored.id] = batch
        self.model.tell_batches()

    def become_due(self) -> None:
        """A delayed job whose time comes is promoted, or cancelled when it has waited too long."""
        expires = self.rng.random() < 0.4
        job = new_job(queue=self.rng.choice(QUEUES), delay=SOON_SECONDS, expires_in=SOON_SECONDS if expires else None)
        if self.model.is_full(job.queue):
            return
        self.store.enqueue([job])
        self.model.add(job, Status.SCHEDULED)
        due = self.shaky.calm.job(job.id).run_at
        until(lambda: self.shaky.calm.server_now() > due + SOON_SECONDS, "the due time")
        self.store.promote()
        expected = self.model.jobs[job.id]
        if expires:
            self.change(expected, lambda: expected.rest(Status.CANCELLED, Reason.EXPIRED))
        else:
            expected.rest(Status.PENDING)
        self.compare(expected)

    def purge(self) -> None:
        queue, status = self.rng.choice(QUEUES), self.rng.choice([each for each in Status if each.is_live is False])
        doomed = [job for job in self.model.jobs.values() if job.queue == queue and job.status is status]
        removed = 0
        while count := self.store.purge(queue, statuses=frozenset({status}), limit=3):
            removed += count
        assert removed == len(doomed)
        for job in doomed:
            self.model.remove(job)
        self.model.tell_batches()

    def delete(self) -> None:
        job = self.some_job()
        if job is None:
            return
        runs = job.status is Status.RUNNING
        assert self.store.delete([job.id]) == (0 if runs else 1)
        if not runs:
            self.model.remove(job)
            self.model.tell_batches()

    # ------------------------------------------------------------ lanes that call together

    def work_together(self) -> None:
        """Each lane completes what it holds; the first is handed the next job, the others may be given some ahead."""
        lanes = [self.model.lane(SHEAF_SLOT, number) for number in SHEAF]
        request = 1 + max(lane.request for lane in lanes)
        words = [lane.held and settlement(lane.held, started_at=1.0) for lane in lanes]
        want = self.rng.choice((Want(), Want(), Want(("a", "b", "c", "d")), None))
        before = [self.model.is_current(lane) for lane in lanes]
        answers = self.store.exchange_many(
            [lane.id for lane in lanes], request, settlements=words, want=want, ahead=self.rng.randint(0, 2)
        )
        for lane, answer, was_current, word in zip(lanes, answers, before, words, strict=True):
            lane.request, lane.last = request, None
            assert answer.settled is (was_current if word else None)
            self._let_go(lane, was_current)
        for lane, answer in zip(lanes, answers, strict=True):
            if answer.claim is not None or (lane is lanes[0] and want is not None):
                self.model.check_claim(lane, want, answer.claim)
        self.made["together"] += 1
        self.made["ahead"] += sum(answer.claim is not None for answer in answers[1:])

    def _let_go(self, lane: Lane, was_current: bool) -> None:
        if lane.held is None:
            return
        job = self.model.jobs.get(lane.held.job_id)
        lane.old.append(lane.held)
        lane.held = None
        if job and was_current:
            self.change(job, partial(job.settle, Outcome.COMPLETED, 0.0, False))

    def die_with_claims_ahead(self) -> None:
        """The worker is killed in the job of its first lane; what it was given ahead has not started."""
        worker = WorkerId(self.model.pool, SHEAF_SLOT, self.model.generations[SHEAF_SLOT])
        running = self.model.held_by(LaneId(worker, 0))
        marks, jobs = ({0: running.claim}, {0: running.id}) if running else ({}, {})
        taken = self.store.recover(departure(worker, started=marks, started_jobs=jobs))
        self._all_lost(worker, marks, jobs, taken, SHEAF)
        self.model.bars[SHEAF_SLOT] = worker.generation
        self.model.generations[SHEAF_SLOT] += 1

    # ------------------------------------------------------------ deaths

    def recover(self) -> None:
        """As the base, and a second time nothing is left to take."""
        before = dict(self.model.generations)
        super().recover()
        for slot in SLOTS:
            if self.model.bars.get(slot) == before[slot]:
                again = departure(WorkerId(self.model.pool, slot, before[slot]), Reason.INTERRUPTED)
                assert self.shaky.calm.recover(again) == []

    def die_in_a_call(self) -> None:
        """A worker is killed while a call of one of its lanes is under way; nobody asks again."""
        lane, want = self.some_lane(holding=True), self.rng.choice(WANTS)
        if self.model.is_barred(lane.id):
            return
        worker, held = lane.id.worker, self.model.held_by(lane.id)
        is_settling = held is not None and self.model.is_current(lane) and self.rng.random() < 0.7
        word = settlement(lane.held, started_at=1.0) if is_settling and lane.held else None
        marks, jobs = self._board_of(worker, lane)
        lane.request += 1
        told = self.shaky.fails_in("exchange", lane.id, lane.request, settlement=word, want=want)
        if told.is_done:
            self._was_done(lane, held if is_settling else None, want)
        self.made["died in a call"] += 1
        taken = self.shaky.without_late_copies("recover", departure(worker, started=marks, started_jobs=jobs))
        self._all_lost(worker, marks, jobs, taken)
        self.model.bars[worker.slot] = worker.generation
        self.model.generations[worker.slot] += 1

    def _board_of(self, worker: WorkerId, calling: Lane) -> tuple[dict[int, int], dict[int, str]]:
        """What the board says has started: the job that the calling lane holds, and perhaps what its neighbours hold."""
        marks, jobs = {}, {}
        for number in LANES:
            held = self.model.held_by(LaneId(worker, number))
            if held and (number == calling.id.lane or self.rng.random() < 0.5):
                marks[number], jobs[number] = held.claim, held.id
        return marks, jobs

    def _was_done(self, lane: Lane, settled: Expected | None, want: Want) -> None:
        """The store did it all, and only its answer is lost."""
        if settled is not None:
            self.change(settled, lambda: settled.settle(Outcome.COMPLETED, 0.0, False))
        running = self.shaky.calm.jobs(JobFilter(status=Status.RUNNING), limit=500).jobs
        mine = [job for job in running if job.worker_id == str(lane.id)]
        assert len(mine) <= 1, "a lane holds two jobs"
        claim = _as_claim(mine[0], self.model.jobs[mine[0].id]) if mine else None
        self.model.check_claim(lane, want, claim)

    def _all_lost(
        self,
        worker: WorkerId,
        marks: dict[int, int],
        jobs: dict[int, str],
        taken: Any,
        lanes: tuple[int, ...] = LANES,
    ) -> None:
        held = {number: self.model.held_by(LaneId(worker, number)) for number in lanes}
        lost = {number: job for number, job in held.items() if job}
        if taken is not None:
            assert {each.job_id for each in taken} == {job.id for job in lost.values()}
        begun = {n for n, job in lost.items() if marks.get(n) == job.claim and jobs[n] == job.id}
        for number, job in lost.items():
            facts = {"started": number in begun, "board_lost": False, "shared": len(begun) > 1}
            self.change(job, partial(job.lose, Reason.WORKER_LOST, **facts))
            self.compare(job)

    def lose_the_pool(self) -> None:
        """Host, supervisor and all: another keeper takes back what the pool held."""
        held = self.model.all_held()
        self._fall_silent()
        keeper = self.place.open()
        taken: list[str] = []

        def all_are_back() -> bool:
            taken.extend(each.job_id for each in keeper.recover_expired())
            return len(taken) >= len(held)

        until(all_are_back, "the rescue")
        assert sorted(taken) == sorted(job.id for job in held)
        self._pool_gone(held, Reason.WORKER_LOST)
        self.made["pools lost"] += 1

    def _fall_silent(self) -> None:
        self.shaky.calm.beat(beat(self.model.pool, self._all_lines(), lease_seconds=SHORT_LEASE_SECONDS))
        if self.place.kind == "sqlite":  # this very process is the holder: as if it had died
            path = self.place.url.removeprefix("sqlite:///")
            with closing(sqlite3.connect(path, timeout=30)) as db, db:
                db.execute("UPDATE lanes SET ticks = 1")
                db.execute("UPDATE pools SET ticks = 1")

    def pool_leaves(self) -> None:
        """It signs off last of all: nothing of it is on the wire any more, and its bars are forgotten."""
        self.shaky.harm.clear_the_wire()
        held = self.model.all_held()
        self.store.leave(self.model.pool)
        self._pool_gone(held, Reason.INTERRUPTED)
        self.made["pools left"] += 1

    def _pool_gone(self, held: list[Expected], reason: Reason) -> None:
        for job in held:
            facts = {"started": True, "board_lost": True, "shared": False}
            self.change(job, partial(job.lose, reason, **facts))
            self.compare(job)
        self.model.begin_anew()

    def hear_a_ghost(self) -> None:
        """A lane of a pool that is gone says that it has finished its job."""
        if not self.model.ghosts:
            return
        lane = self.rng.choice(self.model.ghosts)
        claim = lane.held or self.rng.choice(lane.old)
        lane.request += 1
        assert self.store.exchange(lane.id, lane.request, settlement=settlement(claim)).settled is False
        if claim.job_id in self.model.jobs:
            self.compare(self.model.jobs[claim.job_id])
        self.made["ghosts"] += 1

    # ------------------------------------------------------------ the keeper

    def beat(self) -> None:
        """All is well, but for jobs that a person has cancelled."""
        answer = self.store.beat(beat(self.model.pool, self._all_lines(), lease_seconds=LEASE_SECONDS))
        flagged = {job.id for job in self.model.all_held() if job.flagged}
        assert {held.job_id for held in answer.cancelled} == flagged
        assert (answer.lost, answer.unknown) == ((), ())

    def _all_lines(self) -> list[Held]:
        return [Held(job.holder, job.id, job.claim) for job in self.model.all_held() if job.holder]

    def be_adopted(self) -> None:
        """A failover lost a claim: the store shows the job pending, the next beat says that a lane has it."""
        lane, waiting = self.some_lane(), [j for j in self.model.jobs.values() if j.status is Status.PENDING]
        if not waiting or self.model.is_barred(lane.id) or self.model.held_by(lane.id):
            return
        job = self.rng.choice(waiting)
        held = Held(lane.id, job.id, job.claim + 1)
        answer = self.shaky.calm.beat(beat(self.model.pool, [*self._all_lines(), held], lease_seconds=LEASE_SECONDS))
        assert answer.lost == ()
        job.status, job.holder, job.claim = Status.RUNNING, lane.id, held.claim
        lane.held, lane.last, lane.is_known = held, None, True  # type: ignore[assignment]
        self.compare(job)
        self.made["adopted"] += 1

    def lose_by_audit(self) -> None:
        """A claim whose reply nobody heard: the store says the lane holds it, the board does not."""
        lane = self.some_lane(holding=True)
        job = self.model.held_by(lane.id)
        if job is None or self.model.is_barred(lane.id):
            return
        lines = [line for line in self._all_lines() if line.lane != lane.id]
        answers = [
            self.shaky.calm.beat(beat(self.model.pool, lines, lease_seconds=SHORT_LEASE_SECONDS / 1000))
            for _ in range(3)
        ]
        assert [held.job_id for held in answers[-1].unknown] == [job.id]
        hand_back = departure(lane.id.worker, Reason.INTERRUPTED, bar=False, lanes=(lane.id.lane,))
        taken = self.store.recover(hand_back)
        assert taken is None or [each.job_id for each in taken] == [job.id]
        facts = {"started": False, "board_lost": False, "shared": False}
        self.change(job, lambda: job.lose(Reason.INTERRUPTED, **facts))
        lane.old.append(lane.held)
        lane.held = None
        self.beat()
        self.made["audited"] += 1

    def look_for_the_lost(self) -> None:
        self.beat()
        assert self.shaky.calm.recover_expired() == []

    # ------------------------------------------------------------ comparing

    def compare_counts(self) -> None:
        super().compare_counts()
        self._compare_all()
        self._compare_limits()
        self._compare_batches()

    def _compare_all(self) -> None:
        """Every accepted job is in exactly one state and with one holder."""
        page = self.shaky.calm.jobs(JobFilter(), limit=1000)
        seen = {job.id: (job.status, job.claim, job.worker_id) for job in page.jobs}
        assert len(seen) == len(page.jobs)
        assert seen == {
            job.id: (job.status, job.claim, str(job.holder) if job.holder else None) for job in self.model.jobs.values()
        }
        holders = Counter(worker for _, _, worker in seen.values() if worker)
        assert not [lane for lane, count in holders.items() if count > 1]

    def _compare_limits(self) -> None:
        for limit in self.shaky.calm.limits():
            waiting = [
                job for job in self.model.jobs.values()
                if self.model.limited.get(job.id) == limit.key and job.status is Status.PENDING
            ]  # fmt: skip
            assert (limit.running, limit.waiting) == (self.model.running_of(limit.key), len(waiting)), limit

    def _compare_batches(self) -> None:
        for batch_id, batch in self.model.batches.items():
            seen = self.shaky.calm.batch(batch_id)
            ends = Counter(self.model._end_of(batch, member) for member in batch.members)
            assert (seen.total, seen.completed, seen.failed, seen.cancelled) == (
                len(batch.members), ends[Status.COMPLETED], ends[Status.FAILED], ends[Status.CANCELLED],
            )  # fmt: skip


def _as_claim(job: Any, expected: Expected) -> Any:
    """A claim whose reply was lost, as far as the store shows it."""
    return SimpleNamespace(
        job_id=job.id,
        claim=job.claim,
        retry_count=job.retry_count,
        kill_count=job.kill_count,
        misfits=job.misfits,
        runs_alone=expected.runs_alone,
    )


TROUBLED_WEIGHTS = {
    **WEIGHTS,
    "enqueue_limited": 5,
    "enqueue_members": 2,
    "enqueue_plain": 3,
    "become_due": 2,
    "delete": 1,
    "die_in_a_call": 4,
    "work_together": 8,
    "die_with_claims_ahead": 1,
    "lose_the_pool": 1,
    "pool_leaves": 1,
    "hear_a_ghost": 2,
    "beat": 2,
    "be_adopted": 2,
    "lose_by_audit": 2,
    "look_for_the_lost": 1,
}
