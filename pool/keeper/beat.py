"""Renewal of the pool's leases, and the audit that comes back with it."""

import json
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from pool.backends.contract import Backend, Beat, Departure, Held
from pool.board.lanes import LaneOrder, Phase
from pool.board.record import Record
from pool.clock import monotonic_now
from pool.identity import LaneId, PoolId, ProcessMark
from pool.jobs.job import Cause
from pool.jobs.lifecycle import Reason
from pool.keeper.crew import Crew
from pool.logs import log

JUST_CLAIMED_S = 0.5  # the store knows of it, and short jobs are over before anybody could ask about them


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
        self._tell(answer.cancelled, _cancels)
        self._tell(answer.lost, _loses)
        self._audit(set(answer.unknown))
        return bool(beat.held or answer.unknown) or self.crew.holds_anything()

    def _beat(self) -> Beat:
        until = monotonic_now() - JUST_CLAIMED_S
        held = tuple(line for record in self.crew.living() for line in self._held_by(record, until))
        facts = json.dumps(self.facts())
        return Beat(
            pool=self.pool, supervisor=self.supervisor, lease_seconds=self.lease_seconds, held=held, facts=facts
        )

    def _held_by(self, record: Record, until: float) -> list[Held]:
        """What it has held since then (monotonic). Not what has been taken back from it: the store would believe that it is
        held again."""
        worker = self.crew.worker_id(record)
        return [
            Held(LaneId(worker, n), lane.job_id, lane.claim)
            for n, lane in record.held_lanes().items()
            if lane.since < until and not record.lanes[n].is_given_up(lane.job, lane.claim)
        ]

    def _tell(self, claims: Sequence[Held], order: Callable[[LaneOrder, Held], LaneOrder]) -> None:
        """Those who hold such a claim. Most that were lost have ended since we asked: of these nobody need be told."""
        records = self.crew.by_worker() if claims else {}
        told = {}
        for held in claims:
            record = records.get(held.lane.worker)
            if record is None or not _holds(record, held):
                continue
            cell = record.lanes[held.lane.lane].order
            before = cell.read()
            after = order(before, held)
            if after != before:
                cell.write(*after)
                told[record.index] = record
        for record in told.values():
            self.crew.wake(record)

    def _audit(self, unknown: set[Held]) -> None:
        """Take back what the store says we hold and the board does not, once two beats agree on it."""
        for held in unknown & self._suspects:
            record = self.crew.by_worker().get(held.lane.worker)
            if record is None or not (_holds(record, held) or record.process.read().store_call_since > 0):
                self._take_back(held, record)
        self._suspects = unknown

    def _take_back(self, held: Held, record: Record | None) -> None:
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


def _holds(record: Record, held: Held) -> bool:
    """Whether the lane holds this very claim, by the board."""
    lane = record.lanes[held.lane.lane].state.read()
    return lane.phase != Phase.NONE and (lane.job_id, lane.claim) == (held.job_id, held.claim)


def _cancels(order: LaneOrder, held: Held) -> LaneOrder:
    return order._replace(cancel_job=uuid.UUID(held.job_id).bytes, cancel_claim=held.claim)


def _loses(order: LaneOrder, held: Held) -> LaneOrder:
    return order._replace(lost_job=uuid.UUID(held.job_id).bytes, lost_claim=held.claim)
