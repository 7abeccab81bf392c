"""What a beat carries, and whom its answer is passed on to."""

import os
import uuid

import pytest

from pool.backends.contract import Beat, BeatAnswer
from pool.board.board import Board
from pool.board.lanes import Phase
from pool.board.record import Exit, Record, Role, State
from pool.clock import monotonic_now
from pool.identity import process_mark
from pool.jobs.ids import new_job_id
from pool.keeper.beat import JUST_CLAIMED_S, Heartbeat
from pool.keeper.crew import Crew
from tests.helpers.builders import some_pool

LANES = 3


class Teller:
    """A store that says all of a beat is lost; `meanwhile` happens before it answers."""

    def __init__(self) -> None:
        self.beats: list[Beat] = []
        self.meanwhile = lambda: None

    def beat(self, beat: Beat) -> BeatAnswer:
        self.beats.append(beat)
        self.meanwhile()
        return BeatAnswer(lost=beat.held)


class WakingCrew(Crew):
    """Notes whom it wakes."""

    woken: list[int]

    def wake(self, record: Record) -> None:
        self.woken.append(record.index)


class Scene:
    """A worker (this very process) with some lanes, and the heart that beats for it."""

    def __init__(self) -> None:
        board, pool = Board(lanes=LANES, records=4), some_pool()
        record = board.take_free()
        assert record is not None
        record.occupy(Role.WORKER, 1, 1, pid=os.getpid(), group="workers", now=monotonic_now())
        now = monotonic_now()
        record.process.write(State.BUSY, Exit.NONE, now, now, 0.0, 0, 0, 0, 0)
        self.record, self.store, self.crew = record, Teller(), WakingCrew(board, pool)
        self.crew.woken = []
        self.heart = Heartbeat(self.store, self.crew, pool, process_mark(), 60.0, dict)  # type: ignore[arg-type]

    def hold(self, lane: int, *, seconds: float = 10 * JUST_CLAIMED_S, phase: Phase = Phase.STARTED) -> str:
        job = new_job_id()
        since = monotonic_now() - seconds
        self.record.lanes[lane].state.write(phase, 1, uuid.UUID(job).bytes, since, 0.0, 1, b"t", b"q")
        return job

    def told(self) -> list[bool]:
        states = ((cells, cells.state.read()) for cells in self.record.lanes)
        return [lane.claim > 0 and cells.is_given_up(lane.job, lane.claim) for cells, lane in states]


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_what_has_just_been_claimed_is_left_out_and_somebody_is_at_work_all_the_same(scene: Scene) -> None:
    scene.hold(0, seconds=-60.0)  # it stays new however long we are kept from looking
    assert scene.heart.renew()
    assert scene.store.beats[-1].held == ()
    old = scene.hold(1)
    assert scene.heart.renew()
    assert [held.job_id for held in scene.store.beats[-1].held] == [old]


def test_a_worker_that_lost_several_is_told_of_each_and_woken_once(scene: Scene) -> None:
    scene.hold(0)
    scene.hold(2)
    scene.heart.renew()
    assert scene.told() == [True, False, True]
    assert scene.crew.woken == [scene.record.index]


def test_nobody_is_told_of_a_claim_that_ended_while_the_store_was_asked(scene: Scene) -> None:
    scene.hold(0)
    scene.hold(1)
    scene.store.meanwhile = lambda: (scene.hold(0), scene.hold(1, phase=Phase.NONE))
    scene.heart.renew()
    assert scene.told() == [False, False, False]
    assert scene.crew.woken == []
