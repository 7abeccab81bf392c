"""The last hour, by the minute: what the dashboard draws. It stands in the bulletin, so that no web process has to be there.

A keeper that follows another goes on from what that one posted. The store itself only counts by the hour.
"""

import json
from collections import deque
from collections.abc import Iterable
from typing import Any

from pool.backends.contract import QueueState, Statistics
from pool.board.board import Board
from pool.board.tally import BOUNDS_S

EVERY_S = 60.0
KEPT_S = 3600.0

Row = tuple[
    float, int, int, int, int, float
]  # wall, completed, failed, retried (all ever), pending, oldest pending in s
Waits = list[
    int
]  # how many jobs of this pool's workers have ever waited so long, by the bounds of the tally; last = longer


class History:
    """One row a minute. `store`: the one it is of, for the counts of another are not comparable."""

    def __init__(self, board: Board, store: str) -> None:
        self._board = board
        self._rows: deque[Row] = deque()
        self._waits: deque[tuple[float, Waits]] = deque()
        self._take_over(store)

    def note(self, now: float, numbers: Statistics, queues: Iterable[QueueState]) -> None:
        """Once a minute a row; else nothing. Something that lies an hour back is forgotten."""
        if self._rows and 0 <= now - self._rows[-1][0] < EVERY_S:
            return
        states = list(queues)
        pending = sum(queue.pending for queue in states)
        oldest = max((queue.oldest_pending_s or 0.0 for queue in states if not queue.paused), default=0.0)
        self._rows.append((now, numbers.completed, numbers.failed, numbers.retried, pending, round(oldest, 1)))
        self._waits.append((now, waits_on(self._board)))
        while now - self._rows[0][0] > KEPT_S:
            self._rows.popleft()
        while len(self._waits) > 2 and now - self._waits[0][0] > KEPT_S:
            self._waits.popleft()

    def document(self) -> dict[str, Any]:
        """For the bulletin: the rows, and the waits at the beginning and at the end of what is kept."""
        if not self._waits:
            return {"history": [], "waits": None}
        (since, before), (_, after) = self._waits[0], self._waits[-1]
        return {"history": list(self._rows), "waits": {"since": since, "before": before, "after": after}}

    def _take_over(self, store: str) -> None:
        """What the keeper before us has posted of the same store."""
        try:
            news = json.loads(self._board.bulletin.read() or b"{}")
            if news.get("backend", {}).get("url") == store:
                self._rows.extend(tuple(row) for row in news["history"])
                self._waits.extend([(news["waits"]["since"], news["waits"]["before"])])
        except (ValueError, KeyError, TypeError, AttributeError):
            return


def waits_on(board: Board) -> Waits:
    """Over all job types and workers since the supervisor's start."""
    total = [0] * (len(BOUNDS_S) + 1)
    for index in range(board.used):
        for counts in board.record(index).tally.read():
            total = [sum(pair) for pair in zip(total, counts.wait[0], strict=True)]
    return total
