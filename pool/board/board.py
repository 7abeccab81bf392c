"""The board: shared memory on which the parent, the keeper and the workers see each other without system calls.

Reserved once, before the first fork; a page that nobody wrote costs nothing. It survives `kill -9` of any child.
"""

import mmap
import struct
from collections.abc import Iterator
from typing import NamedTuple

from pool.board.cell import Cell, cell_bytes
from pool.board.lanes import LANE_CELLS_BYTES
from pool.board.record import FIXED_CELLS_BYTES, Record, Role

MAX_RECORDS = 4096
BULLETIN_BYTES = 256 * 1024
WATCH = struct.Struct("=d")
_U64 = struct.Struct("=Q")


class Watch(NamedTuple):
    """When the keeper last looked whether claims made ahead wait too long (monotonic). Nobody looks: none are made."""

    looked_at: float


class Board:
    """`records` places for processes with `lanes` lanes each, and a bulletin from the keeper to the parent."""

    def __init__(self, *, lanes: int = 1, records: int = MAX_RECORDS) -> None:
        self._lanes, self._count = lanes, records
        self._record_bytes = FIXED_CELLS_BYTES + lanes * LANE_CELLS_BYTES
        self._first_record = 8 + Bulletin.BYTES + cell_bytes(WATCH)
        self._memory = mmap.mmap(-1, self._first_record + records * self._record_bytes)
        self._view = memoryview(self._memory)
        self._u64 = self._view.cast("B")[:8].cast("Q")
        self.bulletin = Bulletin(self._view, 8)
        self.watch: Cell[Watch] = Cell(self._view, 8 + Bulletin.BYTES, WATCH, Watch)
        self._records: dict[int, Record] = {}

    def record(self, index: int) -> Record:
        """The record at `index`, the same object each time."""
        if index not in self._records:
            self._records[index] = Record(
                self._view, self._first_record + index * self._record_bytes, index, self._lanes
            )
        return self._records[index]

    def take_free(self) -> Record | None:
        """Parent: a record that nobody has; None when all are taken (old deaths not yet settled)."""
        for index in range(self.used):
            if self.record(index).tenant.read().role == Role.NOBODY:
                return self.record(index)
        if self.used == self._count:
            return None
        self._u64[0] += 1
        return self.record(self.used - 1)

    @property
    def used(self) -> int:
        """How many records were ever taken; those above were never touched."""
        return self._u64[0]

    def taken(self) -> Iterator[Record]:
        """Every record that has a tenant, living or dead."""
        for index in range(self.used):
            record = self.record(index)
            if record.tenant.read().role != Role.NOBODY:
                yield record


class Bulletin:
    """A text the keeper posts whole and the parent reads whole: two copies and a turn counter, as in a cell."""

    BYTES = 8 + 2 * BULLETIN_BYTES

    def __init__(self, view: memoryview, offset: int) -> None:
        self._turn = view[offset : offset + 8].cast("Q")
        self._copies = tuple(
            view[offset + 8 + n * BULLETIN_BYTES : offset + 8 + (n + 1) * BULLETIN_BYTES] for n in (0, 1)
        )

    def post(self, text: bytes) -> bool:
        """Keeper: replace the text; False when it is too long and the old one stays."""
        if len(text) > BULLETIN_BYTES - 8:
            return False
        turn = self._turn[0] + 1
        copy = self._copies[turn & 1]
        copy[8 : 8 + len(text)] = text
        _U64.pack_into(copy, 0, len(text))
        self._turn[0] = turn
        return True

    def read(self) -> bytes:
        """The latest whole text; empty before the first."""
        text = b""
        for _ in range(8):
            turn = self._turn[0]
            copy = self._copies[turn & 1]
            text = bytes(copy[8 : 8 + _U64.unpack_from(copy, 0)[0]])
            if self._turn[0] == turn:
                break
        return text
