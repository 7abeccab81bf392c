"""What passes through the contract's methods: wishes, answers, beats, departures, and what the store shows. No I/O."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pool.identity import LaneId, PoolId, ProcessMark, WorkerId
from pool.jobs.job import Cause, Claim, Job
from pool.jobs.lifecycle import Status

ANY_QUEUE = ("*",)
MAX_BATCH = 10_000
MAX_POOL_LOSSES = 10
SAME_PURGE_S = 60.0  # a purge whose caller has been away for so long is over
MAX_MISFITS = 3


@dataclass(frozen=True, slots=True)
class Want:
    """What a lane serves. `("*",)`: every queue but `reserved`, highest priority first, then oldest.

    An explicit list is strict: the first queue that has a job wins, inside it priority, then oldest.
    `reserved` are queues of types that forked workers do not serve. Paused queues hand out nothing.
    `lease_seconds` is set only for holders that no pool beats for (HTTP): their claim runs out by itself, `report`
    renews it, and the store knows their lane only while it holds a job.
    """

    queues: tuple[str, ...] = ANY_QUEUE
    min_priority: int = 0
    max_priority: int = 100
    reserved: tuple[str, ...] = ()
    lease_seconds: float | None = None

    @property
    def is_any(self) -> bool:
        return self.queues == ANY_QUEUE


@dataclass(slots=True)
class Answer:
    """Reply to `exchange`: whether the settlement was accepted (None: none was sent), and the next claim if any."""

    settled: bool | None = None
    claim: Claim | None = None


@dataclass(frozen=True, slots=True)
class Held:
    """A lane holds a job under a claim number: one line of a beat or of an audit."""

    lane: LaneId
    job_id: str
    claim: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Beat:
    """One heartbeat of a pool. `held` is what its lanes hold, read from the board just before.

    `facts` is JSON for people and clients: groups, workers, version, known types with their policies, schedule names.
    """

    pool: PoolId
    supervisor: ProcessMark
    lease_seconds: float
    held: tuple[Held, ...]
    facts: str = "{}"


@dataclass(frozen=True, slots=True)
class BeatAnswer:
    """What the store knows better.

    lost       held by the beat, but moved on in the store: the lane must abandon the job
    cancelled  held, and a person asked to cancel it
    unknown    the store says this pool holds it, the beat does not; only claims older than a third of the lease
    """

    lost: tuple[Held, ...] = ()
    cancelled: tuple[Held, ...] = ()
    unknown: tuple[Held, ...] = ()


@dataclass(frozen=True, slots=True)
class Finished:
    """A job that completed, by its lane's word on the board, under this claim; a later settlement is answered False."""

    job_id: str
    claim: int
    started_at: float
    result: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Departure:
    """A worker process is gone (planned or not). `generation`s up to the worker's are barred when `bar` is true.

    `started` has the claim number last started per lane; a held claim that is not in it never started and is
    returned at no cost. None means the board is lost: claimed counts as started. `started_jobs` has the job of that
    claim: the lane may have been handed another one, under the same number, in the step whose reply it never saw.
    `cause.reason` is WORKER_LOST
    (witnessed death), TIMEOUT, MEMORY_LIMIT, CANCELLED (ordered kills), or INTERRUPTED (our own shutdown: no retry used).
    """

    worker: WorkerId
    cause: Cause
    started: Mapping[int, int] | None
    started_jobs: Mapping[int, str] = field(default_factory=dict)
    bar: bool = True
    output: Mapping[int, str] = field(default_factory=dict)
    lanes: tuple[int, ...] | None = None  # only these lanes (an audit's hand-back); None = all
    claims: Mapping[int, tuple[str, int]] = field(
        default_factory=dict
    )  # lane -> job and claim: any other stays with it
    finished: Mapping[int, Finished] = field(default_factory=dict)  # lane -> its job, completed and not handed in


@dataclass(frozen=True, slots=True)
class Recovered:
    """A job taken back from a departed worker, where it went, and why."""

    job_id: str
    status: Status
    worker: str
    reason: str


@dataclass(frozen=True, slots=True)
class Promotion:
    """How many due jobs became pending, when the next scheduled one is due (wall seconds; None: none), and whether jobs
    that may start are waiting somewhere."""

    moved: int
    next_due: float | None
    is_waiting: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFilter:
    """Which jobs to list; None = any. `text` is looked for in id, type, error and payload."""

    status: Status | None = None
    type: str | None = None
    queue: str | None = None
    owner: str | None = None
    reason: str | None = None
    text: str | None = None
    finished_before: float | None = None
    batch_id: str | None = None


@dataclass(frozen=True, slots=True)
class Page:
    """Jobs, newest first; `after` is the cursor for the next page (None: this was the last)."""

    jobs: tuple[Job, ...]
    after: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueState:
    """One queue, as counted in the store. `oldest_pending_s` is of those that a worker could take: not held by a limit.

    `overdue`: delayed or retried jobs due more than 1 s ago and not started.
    """

    name: str
    pending: int = 0
    scheduled: int = 0
    running: int = 0
    completed: int = 0
    failed: int = 0
    oldest_pending_s: float | None = None
    overdue: int = 0
    paused: bool = False
    max_pending: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistics:
    """Totals since the store began (they outlive the records), the last 24 UTC hours, and the store itself."""

    enqueued: int
    completed: int
    retried: int
    failed: int
    cancelled: int
    worker_deaths: int
    delayed: int
    overdue: int
    next_due: float | None
    hours: tuple[dict[str, Any], ...]  # oldest first: {hour (RFC 3339), enqueued, completed, retried, failed}
    backend: dict[str, Any]  # kind, version, memory_used, memory_peak, file_bytes, wal_bytes, …


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolState:
    """A pool as last beaten. `age_s`: seconds since that beat, as far as the store can tell."""

    pool: PoolId
    age_s: float
    lost: bool
    facts: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitState:
    """A limit as the store keeps it: what it allows, how many of its jobs run and wait, and when the next may start.

    `count` starts per `per_s` seconds (0: any rate), `max_running` at once over all pools (0: any number). `opens_at`
    is a wall time while the rate is used up, else None.
    """

    key: str
    count: int = 0
    per_s: float = 0.0
    max_running: int = 0
    running: int = 0
    waiting: int = 0
    opens_at: float | None = None

    @property
    def has_room(self) -> bool:
        """Whether one more of its jobs may start now."""
        return self.opens_at is None and not (self.max_running and self.running >= self.max_running)


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchState:
    """A batch by its members' states. `is_over` once none may still run; its callbacks were enqueued in that step."""

    id: str
    total: int
    completed: int = 0
    failed: int = 0
    cancelled: int = 0
    created_at: float = 0.0

    @property
    def open(self) -> int:
        return self.total - self.completed - self.failed - self.cancelled

    @property
    def is_over(self) -> bool:
        return self.open == 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """What somebody did. `details` is JSON; `at` is set by the store."""

    who: str
    act: str
    details: str = "{}"
    at: float = 0.0
