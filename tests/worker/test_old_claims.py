"""A claim that has lain in hand too long is asked for again before its job starts: it may be another worker's by now."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from pool.backends.sqlite.backend import SqliteBackend
from pool.board.board import Board
from pool.board.record import Role
from pool.clock import monotonic_now
from pool.identity import process_mark
from pool.jobs.job import Claim, Outcome
from pool.jobs.lifecycle import Status
from pool.jobs.registry import registry
from pool.seat import Seat
from pool.worker.lane import Lane, Tools
from pool.worker.mailbox import Mailbox
from pool.worker.output import Stage
from pool.worker.presence import Presence
from pool.worker.timeouts import Interrupts
from tests.helpers.builders import ANYTHING, Hand, departure, put, worker

LEASE_S = 60.0


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteBackend]:
    store = SqliteBackend(str(tmp_path / "jobpool.db"))
    yield store
    store.close()


def lane_of(store: SqliteBackend, folder: Path) -> Lane:
    board = Board(records=1)
    record = board.take_free()
    assert record is not None
    record.occupy(Role.WORKER, 1, 1, pid=0, group="workers", now=monotonic_now())
    seat = Seat(worker(slot=1), Role.WORKER, "workers", board, record, process_mark(), -1, -1, -1)
    tools = Tools(seat, Presence(seat), Mailbox(), Stage(), registry, LEASE_S, folder)
    return Lane(tools, 0, Interrupts(record.lanes[0].order), store)


def grown_old(lane: Lane) -> Claim:
    """A claim whose worker stood still for half a lease right after it."""
    claim = lane.exchange(ANYTHING)
    assert claim is not None
    lane.desk.asked_at -= LEASE_S / 2
    return claim


def test_a_claim_that_came_while_we_were_told_to_leave_is_not_started(store: SqliteBackend, tmp_path: Path) -> None:
    """SIGTERM arrived between the call to the store and its answer: the next worker gets it, and nothing was used up."""
    put(store, type="tests.worker.app.add", payload='{"left": 1, "right": 2}')
    lane = lane_of(store, tmp_path)
    claim = lane.exchange(ANYTHING)
    assert claim is not None
    lane.tools.mailbox.is_stopping = True

    lane.carry_out(claim)
    assert lane.tools.seat.record.started_claims() == {}
    lane.exchange(None)

    job = store.job(claim.job_id)
    assert (job.status, job.retry_count) == (Status.PENDING, 0)
    assert [attempt.outcome for attempt in job.attempts] in ([], [Outcome.RETURNED])
    lane.tools.mailbox.is_stopping = False
    again = lane.exchange(ANYTHING)
    assert again is not None
    lane.carry_out(again)
    lane.exchange(None)
    assert store.job(claim.job_id).status is Status.COMPLETED


def test_an_old_claim_of_a_job_that_was_given_away_is_dropped(store: SqliteBackend, tmp_path: Path) -> None:
    put(store)
    lane = lane_of(store, tmp_path)
    claim = grown_old(lane)
    store.recover(departure(lane.id.worker, started={}, bar=False))
    assert Hand(store).take().job_id == claim.job_id

    assert lane.made_sure(claim, ANYTHING) is None


def test_an_old_claim_of_a_job_that_is_still_ours_starts(store: SqliteBackend, tmp_path: Path) -> None:
    put(store)
    lane = lane_of(store, tmp_path)
    claim = grown_old(lane)

    sure = lane.made_sure(claim, ANYTHING)

    assert sure is not None
    assert (sure.job_id, sure.claim) == (claim.job_id, claim.claim)
    assert not lane.is_old(sure)


def test_a_fresh_claim_costs_no_second_call(store: SqliteBackend, tmp_path: Path) -> None:
    put(store)
    lane = lane_of(store, tmp_path)
    claim = lane.exchange(ANYTHING)
    assert claim is not None
    asked = lane.desk.request

    assert lane.made_sure(claim, ANYTHING) is claim
    assert lane.desk.request == asked
