"""A worker pays for the lanes of jobs claimed ahead when it claims some, not before."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from pool.backends.sqlite.backend import SqliteBackend
from pool.board.board import Board
from pool.board.record import Role
from pool.board.start_lock import STARTS_FREELY_FOR_S, new_lock_file
from pool.clock import monotonic_now
from pool.identity import process_mark
from pool.jobs.registry import registry
from pool.seat import Seat
from pool.worker.lane import Lane, Tools
from pool.worker.mailbox import Mailbox
from pool.worker.output import Stage
from pool.worker.pace import BUSY_AFTER_CALLS, KNOWN_AFTER
from pool.worker.presence import Presence
from pool.worker.sheaf import Sheaf
from pool.worker.timeouts import Interrupts
from tests.helpers.builders import ANYTHING, put, worker

LANES = 8


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteBackend]:
    store = SqliteBackend(str(tmp_path / "jobpool.db"))
    yield store
    store.close()


@pytest.fixture
def lock_fd() -> Iterator[int]:
    fd = new_lock_file()
    yield fd
    os.close(fd)


def sheaf_on(store: SqliteBackend, folder: Path, lock_fd: int) -> Sheaf:
    board = Board(lanes=LANES, records=1)
    record = board.take_free()
    assert record is not None
    record.occupy(Role.WORKER, 1, 1, pid=0, group="workers", now=monotonic_now())
    seat = Seat(worker(slot=1), Role.WORKER, "workers", board, record, process_mark(), -1, -1, -1, lock_fd)
    tools = Tools(seat, Presence(seat), Mailbox(), Stage(), registry, 60.0, folder)
    lanes: list[Lane] = []

    def make_lane(number: int) -> Lane:
        return Lane(tools, number, Interrupts(record.lanes[number].order), store)

    lanes.append(make_lane(0))
    return Sheaf(seat, lanes, LANES, make_lane)


@pytest.mark.parametrize("freely_s", [STARTS_FREELY_FOR_S, 0.0], ids=["brisk", "slow"])
def test_lanes_are_made_for_the_first_call_that_asks_for_jobs_ahead(
    store: SqliteBackend, tmp_path: Path, lock_fd: int, freely_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Slow: the machine is so busy that no start comes soon enough to do without the lock."""
    monkeypatch.setattr("pool.worker.sheaf.STARTS_FREELY_FOR_S", freely_s)
    for _ in range(KNOWN_AFTER + BUSY_AFTER_CALLS + 200):  # a busy machine makes some of them long
        put(store, type="tests.worker.app.add", payload='{"left": 1, "right": 2}')
    sheaf = sheaf_on(store, tmp_path, lock_fd)
    lanes = sheaf.lanes
    made = []

    while len(lanes) == 1:
        made.append(len(lanes))
        sheaf._board.watch.write(monotonic_now())  # the keeper looks
        assert sheaf.exchange(ANYTHING)
        sheaf.carry_out(ANYTHING, lambda is_more: is_more)

    assert len(made) > KNOWN_AFTER  # one at a time, until the jobs were known as short ones
    assert [lane.id.lane for lane in lanes] == list(range(len(lanes)))
    assert sheaf._ids == [lane.id for lane in lanes]
