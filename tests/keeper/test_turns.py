"""In which order the keeper does what is due: a dead worker's job before all that nobody waits for."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from pool.backends.opening import open_backend
from pool.board.board import Board
from pool.board.lanes import Phase
from pool.board.record import Exit, Note, Record, Role, State
from pool.clock import monotonic_now
from pool.identity import LaneId, WorkerId, process_mark
from pool.jobs.lifecycle import Status
from pool.keeper.loop import Keeper
from pool.seat import Seat
from pool.settings import Config
from tests.helpers.builders import Hand, put, some_pool

BEATS = ("beat", "queues", "recover")


@dataclass
class Overheard:
    """The store; `calls` are the names of those made since it was emptied."""

    store: Any
    calls: list[str] = field(default_factory=list)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        self.calls.append(name)
        return getattr(self.store, name)  # type: ignore[no-any-return]


@dataclass
class Scene:
    """A keeper at rest with one worker (slot 1), which is no process: it is dead as soon as its note says so."""

    keeper: Keeper
    store: Overheard
    worker: Record
    note_write: int

    def works_and_dies(self) -> str:
        """On the first job after the rest, and the parent has told of it; the job."""
        job = put(self.store.store)
        claim = Hand(self.store.store, LaneId(self.keeper.crew.worker_id(self.worker), 0)).take()
        now, raw = monotonic_now(), bytes.fromhex(job.replace("-", ""))
        self.worker.lanes[0].state.write(Phase.STARTED, claim.claim, raw, now, 0.0, 1, b"t", b"q")
        self.worker.process.write(State.BUSY, Exit.NONE, now, now, 0.0, 0, 0, 0, 0)
        tenant = self.worker.tenant.read()
        self.worker.note.write(*Note(tenant.generation, tenant.pid, 9, 0, 0, 1, 0, 1.0, 1.0))
        os.write(self.note_write, b"n")
        return job


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    backend = {"url": f"sqlite:///{tmp_path}/jobs.db"}
    config = Config.model_validate(
        {"pool": {"runtime_dir": str(tmp_path), "state_dir": str(tmp_path)}, "backend": backend}
    )
    board, pool, store = Board(records=4), some_pool(), Overheard(open_backend(backend["url"]))
    keepers, workers = occupied(board, Role.KEEPER, 9001), occupied(board, Role.WORKER, 1)
    note_read, note_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    seat = Seat(
        worker=WorkerId(pool, 9001, 1), role=Role.KEEPER, group="keeper", board=board, record=keepers,
        parent=process_mark(os.getppid()), announce_fd=note_write, note_fd=note_read, stack_fd=-1,
    )  # fmt: skip
    keeper = Keeper(config, seat, store)
    keeper.turn()
    yield Scene(keeper, store, workers, note_write)
    store.store.close()
    os.close(note_read)
    os.close(note_write)


def occupied(board: Board, role: Role, slot: int) -> Record:
    """By this very process, which lives."""
    record = board.take_free()
    assert record is not None
    record.occupy(role, slot, 1, pid=0, group="", now=monotonic_now())
    record.occupy(role, slot, 1, pid=os.getpid(), group="", now=monotonic_now())
    return record


def test_a_death_on_the_first_job_after_a_rest_is_told_before_the_beat_that_tells_of_the_job(scene: Scene) -> None:
    job = scene.works_and_dies()
    scene.store.calls.clear()

    for _ in range(2):
        scene.keeper.sleep()
        scene.keeper.turn()

    assert scene.store.store.job(job).status is Status.PENDING
    assert [call for call in scene.store.calls if call in BEATS] == ["recover", "beat", "queues"]


def test_a_beat_that_is_due_is_not_kept_waiting_by_a_death(scene: Scene) -> None:
    scene.works_and_dies()
    scene.keeper.renewal.due_at = 0.0
    scene.store.calls.clear()

    scene.keeper.sleep()
    scene.keeper.turn()

    assert [call for call in scene.store.calls if call in BEATS][:2] == ["beat", "recover"]
