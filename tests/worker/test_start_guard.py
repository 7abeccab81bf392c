"""The last look before a job starts: may it, or has the keeper taken it back?"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pool.backends.sqlite.backend import SqliteBackend
from pool.board.board import Board
from pool.board.lanes import LaneCells, Phase
from pool.board.record import Role
from pool.board.start_lock import StartLock, new_lock_file
from pool.clock import monotonic_now
from pool.worker.presence import LaneFace
from tests.helpers.builders import Hand, put
from tests.helpers.stores import in_child


@pytest.fixture
def lane(tmp_path: Path) -> Iterator[tuple[LaneFace, LaneCells]]:
    """One that holds a job and starts it under the lock."""
    board, lock_fd = Board(records=1), new_lock_file()
    record = board.take_free()
    assert record is not None
    record.occupy(Role.WORKER, 1, 1, pid=0, group="workers", now=monotonic_now())
    store = SqliteBackend(str(tmp_path / "jobs.db"))
    put(store)
    face = LaneFace(record.lanes[0])
    face.claimed(Hand(store).take(), 1)
    face.guard = StartLock(lock_fd, record.index)
    yield face, record.lanes[0]
    store.close()
    os.close(lock_fd)


def take_back(cells: LaneCells, *, claims_later: int = 0) -> None:
    held = cells.state.read()
    cells.order.write(*cells.order.read()._replace(lost_job=held.job, lost_claim=held.claim + claims_later))


def test_a_job_that_was_taken_back_does_not_start_and_is_not_said_to(lane: tuple[LaneFace, LaneCells]) -> None:
    face, cells = lane
    take_back(cells)
    assert face.started(0.0) is False
    assert cells.state.read().phase == Phase.CLAIMED


def test_a_mark_of_another_claim_keeps_no_job_from_its_start(lane: tuple[LaneFace, LaneCells]) -> None:
    face, cells = lane
    take_back(cells, claims_later=1)
    assert face.started(0.0) is True
    assert cells.state.read().phase == Phase.STARTED


def test_while_the_sheaf_is_young_a_start_waits_for_nobody(lane: tuple[LaneFace, LaneCells]) -> None:
    face, cells = lane
    assert face.guard is not None
    face.free_until = monotonic_now() + 60.0
    with held_elsewhere(face.guard):
        assert face.started(0.0) is True
    assert cells.state.read().phase == Phase.STARTED


def test_a_start_that_came_too_late_to_be_free_looks_at_the_mark(
    lane: tuple[LaneFace, LaneCells], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The processor was lost between the look at the clock and the word on the board, and the keeper came by."""
    face, cells = lane
    start = face._start

    def start_late(timeout: float) -> bool:
        take_back(cells)
        face.free_until = 0.0
        return start(timeout)

    face.free_until = monotonic_now() + 60.0
    monkeypatch.setattr(face, "_start", start_late)
    assert face.started(0.0) is False
    assert cells.state.read().phase == Phase.CLAIMED


@contextmanager
def held_elsewhere(lock: StartLock) -> Iterator[None]:
    """By another process: the locks of one's own are no hindrance."""
    ready_read, ready = os.pipe()
    done, done_write = os.pipe()

    def hold() -> None:
        lock.take()
        os.write(ready, b"1")
        os.read(done, 1)

    held = in_child(hold)
    os.read(ready_read, 1)
    yield
    os.write(done_write, b"1")
    held.result()
    for fd in (ready_read, ready, done, done_write):
        os.close(fd)
