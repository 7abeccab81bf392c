"""How many jobs of which type ended how, and how long they waited and ran: counters in shared memory, for `/metrics`.

One tally per place on the board, written by the process that has the place, without system calls. It outlives the process:
the next tenant counts on, so that the sum over all places only rises. Each number is one aligned store, which never tears.
"""

from bisect import bisect_left
from collections.abc import Iterator
from typing import NamedTuple

from pool.board.cell import as_text

BOUNDS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0)
SHORT_S = BOUNDS_S[0]
OUTCOMES = ("completed", "failed", "retried", "returned", "cancelled", "lost")
MOST_TYPES = 16  # the last row takes all further types
OTHERS = "(others)"

_NAME_BYTES = 64
_PLACES = {outcome: place for place, outcome in enumerate(OUTCOMES)}
_BUCKETS = len(BOUNDS_S) + 1
_SPAN_CELLS = _BUCKETS + 1  # and the sum in microseconds
_RUN = len(OUTCOMES)  # where these spans begin
_WAIT = _RUN + _SPAN_CELLS
_RUN_SUM, _WAIT_SUM = _RUN + _BUCKETS, _WAIT + _BUCKETS
_ROW_BYTES = _NAME_BYTES + 8 * (len(OUTCOMES) + 2 * _SPAN_CELLS)
TALLY_BYTES = MOST_TYPES * _ROW_BYTES


class TypeCounts(NamedTuple):
    """One type: endings by outcome, and for the time run and the time waited (bucket counts, last = longer; sum in s)."""

    type: str
    outcomes: dict[str, int]
    run: tuple[list[int], float]
    wait: tuple[list[int], float]


class Tally:
    """The counters of one place."""

    __slots__ = ("_firsts", "_numbers", "_offset", "_view")

    def __init__(self, view: memoryview, offset: int) -> None:
        self._view, self._offset = view, offset
        self._numbers = view.cast("Q")
        self._firsts: dict[str, int] = {}

    def add(self, type_name: str, outcome: str, *, run_s: float | None, wait_s: float) -> None:
        """The process that has the place: an attempt has ended. `run_s` None: it never started, and no time is counted."""
        first, numbers = self._firsts.get(type_name) or self._first_of(type_name), self._numbers
        numbers[first + _PLACES[outcome]] += 1
        if run_s is None:
            return
        numbers[first + _RUN + (bisect_left(BOUNDS_S, run_s) if run_s > SHORT_S else 0)] += 1
        numbers[first + _RUN_SUM] += int(run_s * 1_000_000)
        if wait_s > 0:  # two clocks have measured it
            numbers[first + _WAIT + (bisect_left(BOUNDS_S, wait_s) if wait_s > SHORT_S else 0)] += 1
            numbers[first + _WAIT_SUM] += int(wait_s * 1_000_000)
        else:
            numbers[first + _WAIT] += 1

    def read(self) -> Iterator[TypeCounts]:
        """Whatever was ever counted in this place."""
        for row in range(MOST_TYPES):
            offset = self._offset + row * _ROW_BYTES
            name = self._name_at(offset)
            if not name:
                return
            first = (offset + _NAME_BYTES) // 8
            outcomes = dict(zip(OUTCOMES, self._numbers[first : first + len(OUTCOMES)], strict=True))
            yield TypeCounts(name, outcomes, self._span(first + _RUN), self._span(first + _WAIT))

    def _first_of(self, type_name: str) -> int:
        """The index of the type's first number, remembered for the next time."""
        name = as_text(type_name.encode()[: _NAME_BYTES - 1]) or OTHERS
        if len(self._firsts) > 1000:
            self._firsts.clear()
        first = self._firsts[type_name] = (self._find_or_take(name) + _NAME_BYTES) // 8
        return first

    def _find_or_take(self, name: str) -> int:
        for row in range(MOST_TYPES - 1):
            offset = self._offset + row * _ROW_BYTES
            if self._name_at(offset) in ("", name):
                self._write_name(offset, name)
                return offset
        offset = self._offset + (MOST_TYPES - 1) * _ROW_BYTES
        self._write_name(offset, OTHERS)
        return offset

    def _name_at(self, offset: int) -> str:
        return as_text(bytes(self._view[offset : offset + _NAME_BYTES]))

    def _write_name(self, offset: int, name: str) -> None:
        self._view[offset : offset + _NAME_BYTES] = name.encode().ljust(_NAME_BYTES, b"\0")

    def _span(self, first: int) -> tuple[list[int], float]:
        return list(self._numbers[first : first + _BUCKETS]), self._numbers[first + _BUCKETS] / 1_000_000
