"""What the store is told of a dead process: its cause, what had started, and whether it is barred."""

import signal

import pytest

from pool.board.board import Board
from pool.board.record import Note, Ordered, Phase, Record, Role
from pool.clock import monotonic_now
from pool.jobs.ids import new_job_id
from pool.jobs.lifecycle import Reason
from pool.keeper.departures import departure_by_note
from tests.helpers.builders import worker

KILLED = int(signal.SIGKILL)
LEFT_WITH_CODE_0 = 0


def record_with(phase: Phase = Phase.NONE, **note: float) -> Record:
    """A dead worker's record; claim 3 of its lane is in this phase."""
    record = Board(records=1).take_free()
    assert record is not None
    record.occupy(Role.WORKER, 1, 1, pid=0, group="workers", now=monotonic_now())
    job = bytes.fromhex(new_job_id().replace("-", ""))
    record.lanes[0].state.write(phase, 3, job, 0.0, 0.0, 1, b"t", b"q")
    told = {
        "generation": 1,
        "pid": 77,
        "status": KILLED,
        "ordered": Ordered.NONE,
        "planned": 0,
        "was_ready": 1,
        "oom": 0,
    }
    record.note.write(*Note(**(told | {"lived_s": 1.0, "at_boottime": 1.0} | note)))  # type: ignore[arg-type]
    return record


@pytest.mark.parametrize("was_ready", [0, 1])
def test_only_one_that_was_ready_and_may_have_claimed_is_barred(was_ready: int) -> None:
    """A heir that dies while it boots must not bar its predecessor, which still works."""
    assert departure_by_note(worker(), record_with(was_ready=was_ready)).bar is bool(was_ready)


@pytest.mark.parametrize(("phase", "started"), [(Phase.NONE, {}), (Phase.CLAIMED, {}), (Phase.STARTED, {0: 3})])
def test_a_claim_counts_as_started_only_from_its_mark_on(phase: Phase, started: dict[int, int]) -> None:
    told = departure_by_note(worker(), record_with(phase))
    assert told.started == started
    assert set(told.started_jobs) == set(started)


@pytest.mark.parametrize(
    ("note", "reason"),
    [
        ({}, Reason.WORKER_LOST),
        ({"status": LEFT_WITH_CODE_0}, Reason.WORKER_LOST),
        ({"status": LEFT_WITH_CODE_0, "planned": 1}, Reason.INTERRUPTED),
        ({"ordered": Ordered.STOP}, Reason.INTERRUPTED),
        ({"ordered": Ordered.TIMEOUT}, Reason.TIMEOUT),
        ({"ordered": Ordered.MEMORY}, Reason.MEMORY_LIMIT),
        ({"ordered": Ordered.CANCEL}, Reason.CANCELLED),
        ({"ordered": Ordered.SILENT}, Reason.WORKER_LOST),
    ],
)
def test_the_reason_is_what_was_ordered_or_what_happened(note: dict[str, int], reason: Reason) -> None:
    assert departure_by_note(worker(), record_with(Phase.STARTED, **note)).cause.reason is reason
