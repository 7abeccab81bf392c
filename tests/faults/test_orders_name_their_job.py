"""A claim number counts the claims of one job, so nearly every job has claim 1: an order must also name its job."""

import os
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from pool.backends.contract import Held
from pool.backends.opening import open_backend
from pool.board.board import Board
from pool.board.lanes import Phase
from pool.board.record import Record, Role, State
from pool.identity import LaneId, PoolId, process_mark
from pool.jobs.ids import new_job_id
from pool.jobs.lifecycle import Status
from pool.keeper.beat import Heartbeat
from pool.keeper.crew import Crew
from pool.supervisor.inspection import held_claim, still_overdue, still_started
from tests.helpers.builders import Hand, put, some_pool, worker
from tests.helpers.house import House
from tests.helpers.pools import StillPool, workers

OpenHouse = Callable[..., House]


def test_a_cancelled_job_takes_no_later_job_of_its_worker_with_it(open_house: OpenHouse) -> None:
    house = open_house(workers=1)
    victim = house.enqueue("tasks.nap", {"seconds": 60})
    house.wait_for_worker_of(victim)

    house.store.cancel(victim)

    house.wait_until(victim, "cancelled")
    for job in house.enqueue_many([("tasks.quick", {})] * 5):
        assert house.wait_until(job, "completed").claim == 1


def runs(record: Record, job_id: str, claim: int = 1) -> None:
    """The lane is inside this job, which has a deadline."""
    record.lanes[0].state.write(Phase.STARTED, claim, uuid.UUID(job_id).bytes, 1.0, 2.0, 3, b"t", b"q")


@pytest.mark.parametrize("question", [still_overdue, still_started])
def test_a_kill_does_not_hit_the_next_job_of_the_lane(question: Callable[..., Callable[[], bool]]) -> None:
    pool = StillPool(workers(1))
    (child,) = pool.all_born()
    runs(child.record, new_job_id())
    is_due = question(child, {0: held_claim(child.record.lanes[0].state.read())})
    assert is_due()

    runs(child.record, new_job_id())

    assert not is_due()


class Crewed:
    """A keeper's heart over one worker, which is this process."""

    def __init__(self, folder: Path) -> None:
        self.pool: PoolId = some_pool()
        self.store = open_backend(f"sqlite:///{folder}/jobs.db")
        self.board = Board()
        record = self.board.take_free()
        assert record is not None
        record.occupy(Role.WORKER, 0, 1, pid=0, group="w", now=1.0)
        record.occupy(Role.WORKER, 0, 1, pid=os.getpid(), group="w", now=1.0)
        record.process.write(State.IDLE, 0, 1.0, 1.0, 0.0, 0, 0, 0, 0)
        self.record = record
        self.lane = LaneId(worker(self.pool), 0)
        self.heart = Heartbeat(self.store, Crew(self.board, self.pool), self.pool, process_mark(), 60.0, dict)


def test_the_audit_takes_back_a_stray_claim_though_the_lane_last_held_another_with_its_number(tmp_path: Path) -> None:
    """The reply of a claim was lost for good: the store says held, the worker knows nothing."""
    house = Crewed(tmp_path)
    put(house.store)
    hand = Hand(house.store, house.lane)
    claim = hand.take()
    house.record.lanes[0].state.write(Phase.NONE, claim.claim, bytes(16), 1.0, 0.0, 7, b"", b"")

    house.heart._audit({Held(house.lane, claim.job_id, claim.claim)})
    assert house.store.job(claim.job_id).status is Status.RUNNING
    house.heart._audit({Held(house.lane, claim.job_id, claim.claim)})

    assert house.store.job(claim.job_id).status is Status.PENDING
    house.store.close()
