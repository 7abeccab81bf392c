"""Which notes of the dead the keeper still has to tell the store: never one that is another's."""

import pytest

from pool.board.board import Board
from pool.board.record import Note, Record, Role
from pool.clock import monotonic_now
from pool.keeper.burials import has_untold_note

OLD, NEW = (1, 100), (2, 200)  # generation, pid


@pytest.fixture
def record() -> Record:
    """Of the new tenant, as it has been wiped for it."""
    found = Board(records=1).take_free()
    assert found is not None
    generation, pid = NEW
    for number in (0, pid):
        found.occupy(Role.WORKER, 1, generation, pid=number, group="workers", now=monotonic_now())
    return found


def leave_note(record: Record, generation: int, pid: int) -> None:
    record.note.write(*Note(generation, pid, 9, 0, 0, 1, 0, 1.0, 1.0))


def test_the_living_have_none(record: Record) -> None:
    assert not has_untold_note(record)


def test_the_dead_have_one_until_the_store_knows(record: Record) -> None:
    leave_note(record, *NEW)
    assert has_untold_note(record)
    record.done.write(*NEW)
    assert not has_untold_note(record)


def test_a_note_that_a_tenant_before_has_left_is_not_told_of_the_one_that_lives(record: Record) -> None:
    """Between two reads of the keeper the record was freed and taken again."""
    leave_note(record, *OLD)
    assert not has_untold_note(record)
