"""Claims made ahead, as the keeper looks after them: by the board and under the start lock, on a real store."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from pool.backends.contract import Backend
from pool.backends.opening import open_backend
from pool.board.board import Board
from pool.board.lanes import Phase
from pool.board.record import Record, Role
from pool.board.start_lock import TAKEN_BACK_AFTER_S, StartLock, new_lock_file
from pool.clock import monotonic_now
from pool.identity import LaneId, process_mark
from pool.jobs.job import Claim
from pool.jobs.lifecycle import Status
from pool.keeper.beat import Heartbeat
from pool.keeper.bulletin import BulletinWriter
from pool.keeper.crew import Crew
from pool.keeper.sheaves import Sheaves
from pool.settings import Config
from tests.helpers.builders import Hand, put, some_pool
from tests.helpers.stores import in_child
from tests.helpers.until import until

LONG_AGO_S = 10 * TAKEN_BACK_AFTER_S


@dataclass
class Scene:
    """A worker (this very process) with three lanes, each with a job, whose sheaf has been open for too long."""

    store: Backend
    record: Record
    sheaves: Sheaves
    claims: list[Claim]

    def put_on_board(self, lane: int, phase: Phase, *, result: str = "7") -> None:
        claim, cells = self.claims[lane], self.record.lanes[lane]
        cells.ending.write(1.0, len(result), result.encode())
        job = bytes.fromhex(claim.job_id.replace("-", ""))
        cells.state.write(phase, claim.claim, job, monotonic_now(), 0.0, 1, b"t", b"q")

    def open(self, *, seconds_ago: float = LONG_AGO_S) -> None:
        self.record.sheaf.write(monotonic_now() - seconds_ago, 3, 1)

    def look(self) -> None:
        self.sheaves.attend()

    def states(self) -> list[Status]:
        return [self.store.job(claim.job_id).status for claim in self.claims]

    def given_up(self) -> list[bool]:
        states = ((cells, cells.state.read()) for cells in self.record.lanes)
        return [cells.is_given_up(lane.job, lane.claim) for cells, lane in states]


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    store, board, pool = open_backend(f"sqlite:///{tmp_path}/jobs.db"), Board(lanes=3, records=4), some_pool()
    record = board.take_free()
    assert record is not None
    record.occupy(Role.WORKER, 1, 1, pid=os.getpid(), group="workers", now=monotonic_now())
    crew, lock_fd = Crew(board, pool), new_lock_file()
    claims = []
    for lane in range(3):
        put(store)
        claims.append(Hand(store, LaneId(crew.worker_id(record), lane)).take())
    made = Scene(store, record, Sheaves(board, crew, store, lock_fd), claims)
    made.put_on_board(0, Phase.FINISHED)
    made.put_on_board(1, Phase.STARTED)
    made.put_on_board(2, Phase.CLAIMED)
    made.open()
    yield made
    store.close()
    os.close(lock_fd)


def test_what_waits_goes_back_what_has_finished_is_handed_in_and_what_runs_goes_on(scene: Scene) -> None:
    scene.look()
    assert scene.states() == [Status.COMPLETED, Status.RUNNING, Status.PENDING]
    assert scene.given_up() == [True, False, True]
    assert scene.store.job(scene.claims[0].job_id).result == "7"


def test_a_sheaf_that_has_just_been_opened_is_left_alone(scene: Scene) -> None:
    scene.open(seconds_ago=-60.0)  # it stays new however long we are kept from looking
    scene.look()
    assert scene.states() == [Status.RUNNING] * 3
    assert scene.given_up() == [False] * 3


def test_a_sheaf_that_is_closed_is_left_alone(scene: Scene) -> None:
    scene.look()
    scene.record.sheaf.write(0.0, 3, 1)
    scene.put_on_board(1, Phase.CLAIMED)
    scene.look()
    assert scene.states() == [Status.COMPLETED, Status.RUNNING, Status.PENDING]


def test_nothing_is_taken_while_the_worker_is_about_to_start_something(scene: Scene) -> None:
    ready_read, ready = os.pipe()
    done, done_write = os.pipe()

    def hold() -> None:
        StartLock(scene.sheaves.lock_fd, scene.record.index).take()
        os.write(ready, b"1")
        os.read(done, 1)

    held = in_child(hold)
    os.read(ready_read, 1)
    scene.look()
    assert scene.given_up() == [False] * 3
    os.write(done_write, b"1")
    held.result()
    until(lambda: (scene.look(), scene.given_up() == [True, False, True])[1], "the lock is free")
    for fd in (ready_read, ready, done, done_write):
        os.close(fd)


def test_ends_that_the_worker_is_just_handing_in_are_its_own(scene: Scene) -> None:
    process = scene.record.process.read()
    scene.record.process.write(*process._replace(store_call_since=monotonic_now()))
    scene.look()
    assert scene.given_up() == [False, False, True]


def test_what_has_been_taken_back_is_in_no_beat(scene: Scene) -> None:
    """The store would believe that the worker holds it again, and keep it from the others."""
    scene.look()
    crew = scene.sheaves.crew
    heart = Heartbeat(scene.store, crew, crew.worker_id(scene.record).pool, process_mark(), 60.0, dict)
    heart.renew()
    assert scene.states() == [Status.COMPLETED, Status.RUNNING, Status.PENDING]


def test_nobody_waits_for_a_bulletin(scene: Scene) -> None:
    """Its calls to the store may take long: the keeper looks between them."""
    sheaves = scene.sheaves
    BulletinWriter(sheaves.board, scene.store, Config(), sheaves.attend).post()
    assert scene.states() == [Status.COMPLETED, Status.RUNNING, Status.PENDING]


def test_it_says_that_it_looks_only_while_somebody_wishes_it(scene: Scene) -> None:
    scene.look()
    assert monotonic_now() - scene.sheaves.board.watch.read().looked_at < 5.0
    scene.record.sheaf.write(0.0, 1, 0)
    scene.sheaves.notice_wishes(monotonic_now() + 60.0)
    assert not scene.sheaves.is_watching


def test_a_sheaf_closed_before_the_lock_was_had_is_left_alone(scene: Scene) -> None:
    """What its lanes hold from then on is started without the lock."""
    scene.record.sheaf.write(0.0, 3, 1)
    scene.sheaves._settle(scene.record)
    assert scene.given_up() == [False] * 3
    assert scene.states() == [Status.RUNNING] * 3


def test_a_sheaf_opened_anew_before_the_lock_was_had_is_left_alone(scene: Scene) -> None:
    """What its lanes hold is started without the lock while it is young."""
    scene.open(seconds_ago=-60.0)
    scene.sheaves._settle(scene.record)
    assert scene.given_up() == [False] * 3
    assert scene.states() == [Status.RUNNING] * 3
