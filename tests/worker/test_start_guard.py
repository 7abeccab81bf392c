"""The last look before a job starts: may it, or has the keeper taken it back?"""

import os
from collections.abc import Iterator
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


def test_a_job_that_was_taken_back_does_not_start_and_is_not_said_to(lane: tuple[LaneFace, LaneCells]) -> None:
    face, cells = lane
    held = cells.state.read()
    cells.order.write(*cells.order.read()._replace(lost_job=held.job, lost_claim=held.claim))
    assert face.started(0.0, 1) is False
    assert cells.state.read().phase == Phase.CLAIMED


def test_a_mark_of_another_claim_keeps_no_job_from_its_start(lane: tuple[LaneFace, LaneCells]) -> None:
    face, cells = lane
    held = cells.state.read()
    cells.order.write(*cells.order.read()._replace(lost_job=held.job, lost_claim=held.claim + 1))
    assert face.started(0.0, 1) is True
    assert cells.state.read().phase == Phase.STARTED
