"""Claims made with an `Idempotency-Key`, for a while after: the repeated request gets the same answer.

The store itself recognises the key while its job is held (on any server, after any restart). This memory is for the
time after: a copy of the request that arrives when the job is done must not hand out another one.
"""

from collections import OrderedDict
from dataclasses import dataclass, field

from pool.clock import monotonic_now
from pool.web.holding import Hold

KEPT_S = 600.0
MAX_KEPT = 10_000


@dataclass(slots=True)
class RememberedClaims:
    """(holder, key) → job and claim, the newest 10,000, for ten minutes."""

    _claims: OrderedDict[tuple[str, str], tuple[float, str, Hold]] = field(default_factory=OrderedDict)

    def get(self, holder: str, key: str) -> tuple[str, Hold] | None:
        """Job id and claim that were answered for this key."""
        found = self._claims.get((holder, key))
        if found is None or monotonic_now() - found[0] > KEPT_S:
            return None
        return found[1], found[2]

    def put(self, holder: str, key: str, job_id: str, hold: Hold) -> None:
        self._claims[(holder, key)] = (monotonic_now(), job_id, hold)
        self._claims.move_to_end((holder, key))
        while len(self._claims) > MAX_KEPT:
            self._claims.popitem(last=False)
