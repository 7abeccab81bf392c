"""Claims over HTTP, on the store's own fences: each claim is a lane of its own, leased until its next heartbeat.

The lane's name is 124 random bits and is the secret inside the claim token, so the token needs no signature and no
memory: the store itself knows which lane holds which job under which claim number, whichever server is asked, and after
any restart. With an `Idempotency-Key` the lane is derived from token name and key: the repeated claim finds its job.
"""

import base64
import binascii
import hashlib
import hmac
import secrets
import struct
from dataclasses import dataclass

from pool.backends.contract import Backend, Held, Want
from pool.errors import ClaimLost, RequestRefused
from pool.identity import LaneId, PoolId, WorkerId
from pool.jobs.job import Claim, Job, Outcome, Settlement
from pool.jobs.lifecycle import Status
from pool.web.views import HOLDER_POOL

_FORM = struct.Struct(">QQIQ")
_BITS = (1 << 62) - 1
_TRIES = 3


@dataclass(frozen=True, slots=True)
class Hold:
    """A claim as its token tells it: by which lane, under which number, in which of the lane's requests."""

    lane: LaneId
    claim: int
    request: int

    def token(self) -> str:
        """The claim token."""
        raw = _FORM.pack(self.lane.worker.slot, self.lane.lane, self.claim, self.request)
        return base64.urlsafe_b64encode(raw).decode().rstrip("=")

    def held(self, job_id: str) -> Held:
        return Held(self.lane, job_id, self.claim)


def read_token(text: str, holder: str, job_id: str) -> Hold:
    """The claim of this holder that the token stands for; ClaimLost for anything that is no token."""
    try:
        raw = base64.b64decode(text.encode("ascii") + b"=" * (-len(text) % 4), altchars=b"-_", validate=True)
        slot, number, claim, request = _FORM.unpack(raw)
    except (UnicodeEncodeError, binascii.Error, struct.error):
        raise ClaimLost(job_id, 0) from None
    if slot > _BITS or number > _BITS or request > _BITS:
        raise ClaimLost(job_id, 0)
    return Hold(_lane(holder, slot, number), claim, request)


def new_lane(holder: str) -> LaneId:
    """A lane that nobody can guess."""
    return _lane(holder, secrets.randbits(62), secrets.randbits(62))


def keyed_lane(holder: str, key: str) -> LaneId:
    """The lane of this holder's idempotency key."""
    digest = hashlib.sha256(f"{holder}\0{key}".encode("utf-8", "surrogatepass")).digest()
    slot, number = struct.unpack(">QQ", digest[:16])
    return _lane(holder, slot & _BITS, number & _BITS)


def _lane(holder: str, slot: int, number: int) -> LaneId:
    return LaneId(WorkerId(PoolId(HOLDER_POOL, holder, "claims"), slot, 1), number)


def claim(store: Backend, lane: LaneId, request: int, want: Want) -> tuple[Claim, Hold] | None:
    """The next job for this lane, or the one it holds already; None when there is nothing to do. `request` is odd."""
    for _ in range(_TRIES):
        try:
            found = store.exchange(lane, request, want=want).claim
        except RequestRefused as refused:
            request = (refused.last + 1) | 1  # a lane that holds a job gets that same one again
            continue
        return None if found is None else (found, Hold(lane, found.claim, request))
    return None


def settle(store: Backend, hold: Hold, word: Settlement) -> bool:
    """Whether the store took the word: only the current holder's. Settlements have even request numbers."""
    request = hold.request + 1
    for _ in range(_TRIES):
        try:
            return store.exchange(hold.lane, request, settlement=word).settled is True
        except RequestRefused as refused:
            request = (refused.last + 2) & ~1
    return False


def is_held(job: Job, hold: Hold) -> bool:
    """Whether the job runs under this very claim."""
    holder = job.worker_id or ""
    is_same = hmac.compare_digest(holder.encode(), str(hold.lane).encode())
    return is_same and job.status is Status.RUNNING and job.claim == hold.claim


def has_said(job: Job, hold: Hold, outcomes: frozenset[Outcome]) -> bool:
    """Whether this claim was settled so before: the reply was lost and the holder says it again."""
    lane = str(hold.lane).encode()
    return any(
        attempt.outcome in outcomes and hmac.compare_digest(attempt.worker.encode(), lane) for attempt in job.attempts
    )
