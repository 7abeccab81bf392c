"""How far the jobs at work say they are, for /status: the parent asks no store, so the keeper looks for it.

Only at those that have run for a while, the longest first, and not at all of them: it is for people to look at.
"""

from collections.abc import Iterator
from typing import Any

from pool.backends.contract import Backend
from pool.board.board import Board
from pool.board.lanes import Lane, Phase
from pool.clock import monotonic_now
from pool.errors import JobNotFound

RUNNING_FOR_S = 2.0
LOOK_EVERY_S = 2.0
MOST = 20
NOTE_CHARACTERS = 200


class Progress:
    """`look` gives job id → [fraction, note] of those that have said something."""

    def __init__(self, board: Board, backend: Backend) -> None:
        self._board, self._backend = board, backend
        self._look_at = 0.0
        self._seen: dict[str, list[Any]] = {}

    def look(self) -> dict[str, list[Any]]:
        """Asked of the store at most every two seconds."""
        now = monotonic_now()
        if now >= self._look_at:
            self._look_at = now + LOOK_EVERY_S
            self._seen = {job_id: said for job_id in self._long_running(now) if (said := self._said(job_id))}
        return self._seen

    def _long_running(self, now: float) -> list[str]:
        found = sorted((lane.since, lane.job_id) for lane in self._started() if now - lane.since > RUNNING_FOR_S)
        return [job_id for _, job_id in found[:MOST]]

    def _started(self) -> Iterator[Lane]:
        for record in self._board.taken():
            yield from (lane for lane in record.held_lanes().values() if lane.phase == Phase.STARTED)

    def _said(self, job_id: str) -> list[Any] | None:
        try:
            job = self._backend.job(job_id)
        except JobNotFound:
            return None
        note = (job.progress_note or "")[:NOTE_CHARACTERS] or None
        return None if job.progress is None and note is None else [job.progress, note]
