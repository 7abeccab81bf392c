"""What the store is told of a dead process: its cause, what had started, and whether it is barred."""

import signal
from pathlib import Path
from types import SimpleNamespace

import pytest

from pool.board.board import Board
from pool.board.lanes import Phase
from pool.board.record import Note, Ordered, Record, Role
from pool.clock import monotonic_now
from pool.jobs.ids import new_job_id
from pool.jobs.lifecycle import Reason
from pool.keeper import kept
from pool.keeper.departures import departure_by_note
from pool.supervisor.bequest import bequeath
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


@pytest.mark.parametrize("phase", [Phase.NONE, Phase.STARTED])
@pytest.mark.parametrize("ordered", [Ordered.NONE, Ordered.STOP, Ordered.TIMEOUT])
def test_a_death_that_was_kept_on_disk_by_either_is_told_as_if_it_had_been_told_at_once(
    tmp_path: Path, phase: Phase, ordered: Ordered
) -> None:
    record, dead = record_with(phase, ordered=ordered), worker(slot=1)
    record.stack.write(b"in sleep, tasks.py:7")
    told = departure_by_note(dead, record)
    child = SimpleNamespace(record=record, slot=dead.slot, generation=dead.generation)

    assert bequeath(tmp_path / "kept", dead.pool, [child]) == 1  # type: ignore[list-item]
    (file,) = (tmp_path / "kept").glob("*.json")  # by this name the keeper finds it
    assert kept.from_text(file.read_text()) == [told]
    assert kept.from_text(kept.to_text([told])) == [told]


def test_a_disk_that_refuses_the_last_deaths_ends_no_stop_in_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    dead = worker()
    child = SimpleNamespace(record=record_with(Phase.STARTED), slot=dead.slot, generation=dead.generation)
    assert bequeath(tmp_path / "file" / "departures", dead.pool, [child]) == 0  # type: ignore[list-item]
    assert bequeath(None, dead.pool, [child]) == bequeath(tmp_path, dead.pool, []) == 0  # type: ignore[list-item]
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
