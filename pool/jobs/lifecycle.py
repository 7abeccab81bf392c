"""Where a job rests, and every legal move between the places. Both backends and the README are tested against this.

A retry in its backoff is `scheduled`, so there is no state that only means "it failed before".
Moves are verbs; why a job moved is data (`Reason`).
"""

from enum import StrEnum

from pool.errors import IllegalMove


class Status(StrEnum):
    """The resting places of a job."""

    SCHEDULED = "scheduled"  # due later
    PENDING = "pending"  # due now, nobody's
    RUNNING = "running"  # held by one lane
    COMPLETED = "completed"
    FAILED = "failed"  # given up: a dead letter
    CANCELLED = "cancelled"

    @property
    def is_live(self) -> bool:
        """Whether the job may still run; a unique key is held exactly as long as this is true."""
        return self in LIVE


LIVE = frozenset({Status.SCHEDULED, Status.PENDING, Status.RUNNING})


class Reason(StrEnum):
    """Why the last attempt of a failed or cancelled job ended it."""

    FATAL_ERROR = "fatal_error"
    RETRIES_EXHAUSTED = "retries_exhausted"
    TIMEOUT = "timeout"
    WORKER_LOST = "worker_lost"
    MEMORY_LIMIT = "memory_limit"
    INTERRUPTED = "interrupted"
    UNKNOWN_TYPE = "unknown_type"
    INVALID_PAYLOAD = "invalid_payload"
    INVALID_RECORD = "invalid_record"
    CANCELLED = "cancelled"
    DISCARDED = "discarded"
    EXPIRED = "expired"


_S = Status
MOVES: dict[str, tuple[frozenset[Status], Status]] = {
    "promote": (frozenset({_S.SCHEDULED}), _S.PENDING),
    "claim": (frozenset({_S.PENDING}), _S.RUNNING),
    "complete": (frozenset({_S.RUNNING}), _S.COMPLETED),
    "retry": (frozenset({_S.RUNNING}), _S.SCHEDULED),  # after a wait; charged or not
    "release": (frozenset({_S.RUNNING}), _S.PENDING),  # at once: hand-back, lost worker
    "fail": (frozenset({_S.RUNNING}), _S.FAILED),
    "abandon": (frozenset({_S.RUNNING}), _S.CANCELLED),  # a cancel flag met on the way
    "cancel": (frozenset({_S.SCHEDULED, _S.PENDING}), _S.CANCELLED),
    "expire": (frozenset({_S.SCHEDULED, _S.PENDING}), _S.CANCELLED),
    "set aside": (frozenset({_S.SCHEDULED, _S.PENDING}), _S.FAILED),  # a record that cannot be read
    "revive": (frozenset({_S.FAILED, _S.CANCELLED}), _S.PENDING),
    "discard": (frozenset({_S.FAILED}), _S.CANCELLED),
}


def after(move: str, status: Status, job_id: str = "") -> Status:
    """Where `move` leads from `status`; IllegalMove when the table has no such pair."""
    sources, target = MOVES[move]
    if status not in sources:
        raise IllegalMove(move, status, job_id)
    return target
