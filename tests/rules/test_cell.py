"""A cell of shared memory is never read half written, whoever writes, and whoever is killed at it."""

import mmap
import os
import signal
import struct
from typing import NamedTuple

import pytest

from pool.board.cell import TURN_BYTES, Cell, as_text, cell_bytes, padded
from pool.board.lanes import LANE, Lane
from tests.helpers.stores import in_child
from tests.helpers.until import until

WIDE = struct.Struct("=64q")


class Wide(NamedTuple):
    values: tuple[int, ...]


def _wide_cell(memory: mmap.mmap) -> Cell[Wide]:
    return Cell(memoryview(memory), 8, WIDE, lambda *values: Wide(values))


@pytest.fixture
def memory() -> mmap.mmap:
    return mmap.mmap(-1, 4096)


def test_a_fresh_cell_reads_zeros(memory: mmap.mmap) -> None:
    assert _wide_cell(memory).read() == Wide((0,) * 64)
    assert _wide_cell(memory).turn == 0


def test_what_is_written_is_read(memory: mmap.mmap) -> None:
    cell = _wide_cell(memory)
    for number in range(5):
        cell.write(*[number] * 64)
        assert cell.read().values == (number,) * 64
        assert cell.turn == number + 1


def test_a_write_leaves_the_copy_before_it_untouched(memory: mmap.mmap) -> None:
    """A writer killed half way through its next write has destroyed nothing that a reader believes."""
    cell = _wide_cell(memory)
    cell.write(*[1] * 64)
    cell.write(*[2] * 64)
    first, second = 8 + TURN_BYTES, 8 + TURN_BYTES + padded(WIDE.size)
    next_copy = second if cell.turn % 2 == 0 else first
    memory[next_copy : next_copy + WIDE.size // 2] = b"\xff" * (WIDE.size // 2)
    assert cell.read().values == (2,) * 64


def test_cells_side_by_side_do_not_touch_each_other(memory: mmap.mmap) -> None:
    view = memoryview(memory)
    layout = struct.Struct("=q5s")
    cells = [Cell(view, n * cell_bytes(layout), layout, lambda *values: values) for n in range(8)]
    for number, cell in enumerate(cells):
        cell.write(number, b"abcde")
        cell.write(number, b"fghij")
    assert [cell.read() for cell in cells] == [(number, b"fghij") for number in range(8)]


def test_no_reader_sees_half_a_lane_while_a_process_writes(memory: mmap.mmap) -> None:
    """The layout that is written most often, written without a pause."""
    cell: Cell[Lane] = Cell(memoryview(memory), 0, LANE, Lane)
    child = os.fork()
    if not child:
        number = 1
        while True:
            text = b"%016d" % number
            cell.write(number, number, text, number, number, number, text, text)
            number += 1
    try:
        until(lambda: cell.turn > 0, "the writer")
        seen = set()
        for _ in range(20_000):
            lane = cell.read()
            numbers = {int(raw) for raw in (lane.phase, lane.claim, lane.since, lane.hard_deadline, lane.request)}
            texts = {int(raw) for raw in (lane.job, lane.type, lane.queue)}
            assert numbers == texts and len(numbers) == 1, f"torn: {lane}"
            seen |= numbers
        assert len(seen) > 1
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_a_writer_killed_at_any_moment_leaves_a_whole_value(memory: mmap.mmap) -> None:
    for _ in range(30):
        cell = _wide_cell(memory)
        before = cell.turn
        child = os.fork()
        if not child:
            number = before
            while True:
                number += 1
                cell.write(*[number] * 64)
        until(lambda before=before, cell=cell: cell.turn > before + 5, "the writer")
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        assert len(set(cell.read().values)) == 1


def test_a_cell_written_in_a_child_is_read_in_the_parent(memory: mmap.mmap) -> None:
    cell = _wide_cell(memory)
    in_child(lambda: cell.write(*range(64))).result()
    assert cell.read().values == tuple(range(64))


@pytest.mark.parametrize(("size", "room"), [(0, 0), (1, 8), (8, 8), (9, 16), (24, 24)])
def test_sizes_are_rounded_up_to_eight(size: int, room: int) -> None:
    assert padded(size) == room


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"", ""),
        (b"mail\0\0\0", "mail"),
        (b"\0old rest", ""),
        ("größe".encode()[:-1], "größ"),
        ("gr\u00f6".encode()[:-1], "gr"),
        ("🎉".encode()[:3], ""),
        (b"full width", "full width"),
    ],
)
def test_text_ends_at_the_first_nul_and_a_cut_character_is_dropped(raw: bytes, text: str) -> None:
    assert as_text(raw) == text
