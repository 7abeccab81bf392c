"""What a job is on its way in (`NewJob`), in a lane's hands (`Claim`), on its way out (`Settlement`) and at rest (`Job`).

Payload, result and checkpoint travel as JSON text; the backends never look inside. Times are wall seconds (UTC);
`delay` and the like are seconds counted from the store's own clock.
"""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from pool.jobs.lifecycle import Reason, Status

KEPT_ATTEMPTS = 10
KEPT_OUTPUT_BYTES = 16 * 1024
LOCAL_OWNER = "local"


# Jobs on their way are not frozen, though nobody changes them: the guard of so many fields takes longer than all else in
# their making.
@dataclass(slots=True, kw_only=True)
class NewJob:
    """A job before it is stored. The client makes `id` (UUIDv7 text), so that repeating an enqueue cannot double it.

    Due at `run_at` if given, else `delay` seconds from the store's now, else at once. `owner` is the scope of
    `idempotency_key`: a token's name, or "local" for the CLI and Python. Fields have been checked (`jobs.checks`).
    """

    id: str
    type: str
    payload: str = "{}"
    queue: str = "default"
    priority: int = 10
    max_retries: int = 3
    max_kills: int = 3
    timeout: float = 0.0
    run_at: float | None = None
    delay: float = 0.0
    expires_in: float | None = None
    idempotency_key: str | None = None
    unique_key: str | None = None
    owner: str = LOCAL_OWNER
    parent_id: str | None = None
    batch_id: str | None = None
    limit_key: str | None = None  # what it is counted under; its numbers are 0 where nothing is limited
    limit_count: int = 0
    limit_per_s: float = 0.0
    limit_running: int = 0
    on_success: "NewJob | None" = None
    on_failure: "NewJob | None" = None

    @property
    def is_at_most_once(self) -> bool:
        return self.max_retries == 0


@dataclass(frozen=True, slots=True, kw_only=True)
class NewBatch:
    """A batch before it is stored. `on_complete` follows when all members are over, `on_success` when all completed."""

    id: str
    on_complete: NewJob | None = None
    on_success: NewJob | None = None


@dataclass(frozen=True, slots=True)
class Receipt:
    """What enqueue did: `replayed` = an older job answered for this idempotency, unique key or id."""

    job_id: str
    status: Status
    replayed: bool = False
    payload_differs: bool = False


class Outcome(StrEnum):
    """How an attempt ended."""

    COMPLETED = "completed"
    FAILED = "failed"
    RETRIED = "retried"
    RETURNED = "returned"  # handed back: no retry used
    CANCELLED = "cancelled"
    LOST = "lost"  # the worker died or was killed; the cause says how


COMPLETED = Outcome.COMPLETED  # for what each job goes through: a look into an enum takes as long as a call


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """Why an attempt did not complete: an exception of the job, or the end of its worker. Texts are already cleaned."""

    reason: Reason | None = None
    exception: str | None = None  # class name
    text: str | None = None  # at most 10,000 characters
    stack: str | None = None
    signal: int | None = None
    exit_code: int | None = None


PAYLOAD_REPLACED = Cause(text="its payload was replaced by hand")


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One start of a job, as kept with it (the newest 10). Number 0: no start, but what the person `worker` did."""

    number: int
    worker: str
    started_at: float | None
    ended_at: float
    outcome: Outcome
    cause: Cause | None = None
    output: str = ""


@dataclass(slots=True)
class Claim:
    """A job in a lane's hands. `claim` is the fence: raised at every hand-out of this job and never reset.

    `attempt` is for people (retry_count + 1). `misfits` counts hand-backs for an unknown type or unfit payload.
    `claimed_boottime` is this machine's CLOCK_BOOTTIME when the backend call returned (for the late-start rule).

    One is made for each job, with its fields by place and set later: Python makes a dictionary of names given to a class.
    """

    job_id: str
    claim: int
    type: str
    queue: str
    payload: str
    priority: int
    attempt: int
    max_retries: int
    created_at: float
    claimed_at: float
    claimed_boottime: float
    retry_count: int = 0
    kill_count: int = 0
    misfits: int = 0
    timeout: float = 0.0
    checkpoint: str | None = None
    owner: str = LOCAL_OWNER
    runs_alone: bool = False  # it shared a death with other lanes; run it with no neighbour

    @property
    def is_at_most_once(self) -> bool:
        return self.max_retries == 0


@dataclass(slots=True)
class Settlement:
    """What a lane says of the job it held; applied only while (job, lane, claim) is the current holder.

    outcome    COMPLETED (with `result`), FAILED (with `reason`), RETRIED (after `delay`, uses one retry),
               RETURNED (after `delay`, 0 = pending at once; uses none; `misfit` adds one to `misfits`),
               CANCELLED (the job stopped because of its cancel flag).
    A job whose cancel flag is set ends in `cancelled` instead of RETRIED or RETURNED.
    `children` are enqueued in the same step, after the settlement; they never refuse it.
    """

    job_id: str
    claim: int
    outcome: Outcome
    reason: Reason | None = None
    result: str | None = None
    delay: float = 0.0
    misfit: bool = False
    cause: Cause | None = None
    output: str = ""
    started_at: float | None = None
    children: tuple[NewJob, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A stored job as anyone may look at it."""

    id: str
    type: str
    queue: str
    payload: str
    priority: int
    status: Status
    retry_count: int
    max_retries: int
    kill_count: int
    max_kills: int
    timeout: float
    owner: str
    idempotency_key: str | None
    unique_key: str | None
    parent_id: str | None
    run_at: float
    expires_at: float | None
    created_at: float
    updated_at: float
    claimed_at: float | None
    started_at: float | None
    finished_at: float | None
    worker_id: str | None  # text of the lane that holds it now
    claim: int
    cancel_requested: bool
    reason: Reason | None
    error: str | None
    exception: str | None
    result: str | None
    progress: float | None
    progress_note: str | None
    attempts: tuple[Attempt, ...] = field(default=())
    misfits: int = 0
    loss_count: int = 0
    limit_key: str | None = None
    batch_id: str | None = None
    extra: dict[str, Any] = field(default_factory=dict)
