"""One lane: hands in what its last job came to, takes the next, makes sure of it, runs it."""

from dataclasses import dataclass, field
from pathlib import Path

from pool.backends import spool
from pool.backends.contract import Answer, Want, Work
from pool.clock import boottime_now
from pool.errors import LaneBarred
from pool.identity import LaneId
from pool.jobs.job import Claim, Settlement
from pool.jobs.registry import Registry
from pool.logs import log
from pool.seat import Seat
from pool.worker import endings
from pool.worker.desk import Desk, GaveUp
from pool.worker.mailbox import Mailbox
from pool.worker.output import Stage
from pool.worker.presence import LaneFace, Presence
from pool.worker.runner import Loops, Runner
from pool.worker.timeouts import Interrupts


@dataclass(frozen=True, slots=True)
class Tools:
    """What the lanes of a process share."""

    seat: Seat
    presence: Presence
    mailbox: Mailbox
    stage: Stage
    registry: Registry
    lease_seconds: float
    spool: Path
    loops: Loops = field(default_factory=Loops)


class Lane:
    """`in_hand` is what the last job came to, until the store has taken it."""

    def __init__(self, tools: Tools, number: int, interrupts: Interrupts, backend: Work) -> None:
        self.tools = tools
        self.id = LaneId(tools.seat.worker, number)
        self.face = LaneFace(tools.seat.record.lanes[number])
        self.interrupts = interrupts
        self.desk = Desk(backend, self.id, tools.presence, tools.mailbox)
        self.runner = Runner(self.id, self.face, backend, tools, interrupts)
        self.in_hand: Settlement | None = None

    def connect(self, backend: Work) -> None:
        """Deal with this store from now on."""
        self.desk.backend = self.runner.place.store = backend

    def exchange(self, want: Want | None) -> Claim | None:
        """Hand in what is in hand and take the next job, in one step.

        An end that the store refuses to take, for whatever reason, becomes a failed attempt that it can take."""
        if self.in_hand is None and want is None:
            return None
        try:
            answer = self.desk.exchange(self.in_hand, want)
        except (LaneBarred, GaveUp):
            raise
        except Exception as error:
            self.in_hand = self.instead(error)
            answer = self.desk.exchange(self.in_hand, want)
        return self.took(answer)

    def carry_out(self, claim: Claim) -> bool:
        """Run the claim, or give it back when we were told to leave meanwhile. Whether the board has the whole of its end."""
        if self.tools.mailbox.is_stopping:
            self.give_back(claim)
            return True
        self.in_hand = self.runner.run(claim)
        return self.face.completed(self.in_hand)

    def give_back(self, claim: Claim) -> None:
        """Unstarted, with the next call."""
        self.in_hand = endings.unstarted(claim)

    def is_old(self, claim: Claim) -> bool:
        """Whether the job may have been given away since it was claimed: a third of the lease has passed."""
        oldest = boottime_now() - self.tools.lease_seconds / 3
        return self.desk.asked_at < oldest or claim.claimed_boottime < oldest

    def made_sure(self, claim: Claim, want: Want) -> Claim | None:
        """The claim; asked for again as long as it is old."""
        held: Claim | None = claim
        while held is not None and self.is_old(held):
            log.info("claim is old; making sure before the start", job=held.job_id)
            held = self.exchange(want)
        return held

    def took(self, answer: Answer) -> Claim | None:
        """Note on the board and in the counts what the store has answered."""
        if self.in_hand is not None:
            self._note_settled(self.in_hand, answer.settled)
        if answer.claim is not None:
            self.face.claimed(answer.claim, self.desk.request)
        else:
            self.face.settled(self.desk.request)
        return answer.claim

    def keep_on_disk(self) -> None:
        """The store is away and we must go: the result waits in the state directory for the next start."""
        if self.in_hand is None:
            return
        try:
            path = spool.keep(self.tools.spool, self.id, self.desk.request, self.in_hand)
        except OSError as error:
            log.error("result lost: it can neither be handed in nor kept on disk", error=str(error))
        else:
            log.warning("the store is away; result kept on disk for the next start", file=str(path))

    def instead(self, error: Exception) -> Settlement:
        """What to say in place of what the store does not take; raises what is not about a settlement."""
        if self.in_hand is None:
            raise error
        log.error("the store refuses the end of a job", job=self.in_hand.job_id, error=str(error))
        return endings.not_storable(self.in_hand, error)

    def _note_settled(self, settlement: Settlement, accepted: bool | None) -> None:
        """What the keeper has handed in for us counts as ours."""
        self.in_hand = None
        face, outcome = self.face, settlement.outcome
        if accepted or face.is_given_up:
            self.tools.presence.counts.add(outcome)
            self.tools.seat.record.tally.add(face.type, outcome._value_, run_s=face.run_s, wait_s=face.wait_s)
        else:
            log.warning("claim lost: the job was given to another worker", job=settlement.job_id)
