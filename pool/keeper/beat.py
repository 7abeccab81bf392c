"""Renewal of the pool's leases, and the audit that comes back with it."""

import json
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pool.backends.contract import Backend, Beat, Departure, Held
from pool.board.lanes import Phase
from pool.board.record import Record
from pool.identity import LaneId, PoolId, ProcessMark
from pool.jobs.job import Cause
from pool.jobs.lifecycle import Reason
from pool.keeper.crew import Crew
from pool.logs import log


@dataclass(slots=True)
class Heartbeat:
    """Beats for every living lane; passes on what the store knows better."""

    backend: Backend
    crew: Crew
    pool: PoolId
    supervisor: ProcessMark
    lease_seconds: float
    facts: Callable[[], dict[str, Any]]
    _suspects: set[Held] = field(default_factory=set)

    def renew(self) -> bool:
        """One beat; whether anything is held. Orders to lanes go to the board; strangers in the store are settled at
        their second sight."""
        beat = self._beat()
        answer = self.backend.beat(beat)
        for held in answer.cancelled:
            self._order(held, cancel=True)
        for held in answer.lost:
            self._order(held, cancel=False)
        self._audit(set(answer.unknown))
        return bool(beat.held or answer.unknown)

    def _beat(self) -> Beat:
        held = tuple(line for record in self.crew.living() for line in self._held_by(record))
        facts = json.dumps(self.facts())
        return Beat(
            pool=self.pool, supervisor=self.supervisor, lease_seconds=self.lease_seconds, held=held, facts=facts
        )

    def _held_by(self, record: Record) -> list[Held]:
        """Not what has been taken back from it: the store would believe that it is held again."""
        worker = self.crew.worker_id(record)
        held = record.held_lanes().items()
        return [
            Held(LaneId(worker, n), lane.job_id, lane.claim)
            for n, lane in held
            if not record.lanes[n].is_given_up(lane.job, lane.claim)
        ]

    def _order(self, held: Held, *, cancel: bool) -> None:
        record = self.crew.record_of(held.lane)
        if record is None:
            return
        cell = record.lanes[held.lane.lane].order
        before = cell.read()
        job = uuid.UUID(held.job_id).bytes
        after = (
            before._replace(cancel_job=job, cancel_claim=held.claim)
            if cancel
            else before._replace(lost_job=job, lost_claim=held.claim)
        )
        if after != before:
            cell.write(*after)
            self.crew.wake(record)

    def _audit(self, unknown: set[Held]) -> None:
        """Take back what the store says we hold and the board does not, once two beats agree on it."""
        for held in unknown & self._suspects:
            if not self._is_held_or_moving(held):
                self._take_back(held)
        self._suspects = unknown

    def _is_held_or_moving(self, held: Held) -> bool:
        record = self.crew.record_of(held.lane)
        if record is None:
            return False
        lane = record.lanes[held.lane.lane].state.read()
        holds = lane.phase != Phase.NONE and (lane.job_id, lane.claim) == (held.job_id, held.claim)
        return holds or record.process.read().store_call_since > 0

    def _take_back(self, held: Held) -> None:
        record = self.crew.record_of(held.lane)
        if record is None:
            cause = Cause(reason=Reason.WORKER_LOST, text="its worker is not on the board")
            taken = self.backend.recover(Departure(worker=held.lane.worker, cause=cause, started=None, bar=False))
        else:
            cause = Cause(reason=Reason.INTERRUPTED, text="its worker does not know of it")
            taken = self.backend.recover(
                Departure(
                    worker=held.lane.worker,
                    cause=cause,
                    started={},
                    bar=False,
                    lanes=(held.lane.lane,),
                    claims={held.lane.lane: (held.job_id, held.claim)},
                )
            )
        log.warning("audit took jobs back", worker=str(held.lane.worker), jobs=[job.job_id for job in taken])
