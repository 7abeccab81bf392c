"""One value in shared memory that its readers never see half written, whoever dies in between.

Two copies and a turn counter: the writer fills the copy that nobody reads, then raises the counter with one aligned
8-byte store (which never tears). A reader takes the copy that the counter names and believes it only if the counter
stood still meanwhile. Each cell has exactly one writer.
"""

import struct
from collections.abc import Callable
from typing import Any, Generic, NamedTuple, TypeVar

TURN_BYTES = 8
REREADS = 64

T = TypeVar("T", bound=NamedTuple)


class Cell(Generic[T]):
    """A named tuple kept at `offset` (a multiple of 8) of the shared memory `view`."""

    __slots__ = ("_copies", "_layout", "_make", "_pack_into", "_turn_at", "_turns", "_view")

    def __init__(self, view: memoryview, offset: int, layout: struct.Struct, make: Callable[..., T]) -> None:
        self._view, self._layout, self._make = view, layout, make
        self._pack_into = layout.pack_into
        self._turns = view.cast("Q")
        self._turn_at = offset // TURN_BYTES
        first = offset + TURN_BYTES
        self._copies = (first, first + padded(layout.size))

    def write(self, *values: object) -> None:
        """Replace the value; only ever called by the cell's one writer."""
        turn = self._turns[self._turn_at] + 1
        self._pack_into(self._view, self._copies[turn & 1], *values)
        self._turns[self._turn_at] = turn

    def read(self) -> T:
        """The latest whole value. A writer too fast for us leaves the last copy read, which is at most one turn old."""
        raw = b""
        for _ in range(REREADS):
            turn = self._turns[self._turn_at]
            start = self._copies[turn & 1]
            # one copy is quicker than unpacking: less to race
            raw = bytes(self._view[start : start + self._layout.size])
            if self._turns[self._turn_at] == turn:
                break
        return self._make(*self._layout.unpack(raw))

    def setter(self, place: int, code: str) -> Callable[[float], None]:
        """What replaces a single number in the value that stands: its word at `place`, of 8 bytes, packed as `code` says.

        One aligned store and no new turn: a reader finds the number as it was or as it is, and all others as they were. For
        what is written often and may be believed apart from the rest.
        """
        words: Any = self._view.cast(code)  # type: ignore[call-overload]  # its stub wants the code written out
        turns, turn_at = self._turns, self._turn_at
        even, odd = (copy // TURN_BYTES + place for copy in self._copies)

        def set_number(number: float) -> None:
            words[odd if turns[turn_at] & 1 else even] = number

        return set_number

    def news(self) -> Callable[[], T | None]:
        """What returns the value whenever it was written since the last call, at a glance None when it was not."""
        turns, turn_at, seen = self._turns, self._turn_at, -1

        def look() -> T | None:
            nonlocal seen
            turn = turns[turn_at]
            if turn == seen:
                return None
            value = self.read()
            seen = turn  # as it was before: a value that came in between is told twice, and none is missed
            return value

        return look

    @property
    def turn(self) -> int:
        """How often the cell was written: a cheap way to see that something changed."""
        return self._turns[self._turn_at]


def padded(size: int) -> int:
    """`size` rounded up to a multiple of 8, so that every counter stays aligned."""
    return (size + TURN_BYTES - 1) // TURN_BYTES * TURN_BYTES


def cell_bytes(layout: struct.Struct) -> int:
    """The room a cell with this layout takes."""
    return TURN_BYTES + 2 * padded(layout.size)


def as_text(raw: bytes) -> str:
    """Text from a fixed-width field: cut at the first NUL; a character cut in half is dropped."""
    return raw.partition(b"\0")[0].decode("utf-8", "ignore")
