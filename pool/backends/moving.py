"""What a move carries from store to store, and what each kind of store does for it (`jobpool move`, PROTOCOL 35).

Both stores bear a mark from the beginning: nothing is handed out, enqueued or set there. Jobs are put down held at the
target, on its disk, before they are removed at the source; the mark comes off last. Every step may be repeated: what
is there already is left as it is. Jobs travel in the order of the line.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

from pool.backends.contract import AuditEntry
from pool.jobs.job import Job, NewJob
from pool.jobs.lifecycle import Status

SOURCE, TARGET = "source", "target"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """On a store that takes part in a move. `peer` is the other one, masked; `is_over`: this source is empty for good.

    `has_books`: the target has the source's counters, settings and ticks, and must not add them again.
    """

    role: str
    peer: str
    is_over: bool = False
    has_books: bool = False

    def as_text(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def read(cls, text: str) -> "Mark":
        return cls(**json.loads(text))


def said_by_mark(text: str) -> dict[str, Any]:
    """What StoreMoved wants to know."""
    mark = Mark.read(text)
    return {"role": mark.role, "peer": mark.peer, "is_over": mark.is_over}


def warning_of_mark(text: str) -> str:
    """For a pool that was started on a store where nothing is handed out."""
    mark = Mark.read(text)
    if mark.is_over:
        return f"its jobs have been moved to {mark.peer}: nothing is handed out here; set backend.url to that"
    return f"it takes part in a move ({mark.role}, the other side is {mark.peer}): nothing is handed out until it has ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class CarriedJob:
    """A job with all that its store knows of it.

    `job` has its attempts. `is_late`: pending, was due at `job.run_at`. `limit`: count, per seconds, running, for
    its `limit_key`. `follow_ups`: on success, on failure.
    """

    job: Job
    checkpoint: str | None = None
    runs_alone: bool = False
    is_late: bool = False
    limit: tuple[int, float, int] = (0, 0.0, 0)
    follow_ups: tuple[NewJob | None, NewJob | None] = (None, None)

    @property
    def due_at(self) -> float | None:
        """Its own time, for one that waits for it or was given one; None: the time it was enqueued."""
        job = self.job
        if job.status is Status.SCHEDULED or self.is_late:
            return job.run_at
        return None if job.status is Status.PENDING or job.run_at == job.created_at else job.run_at

    def as_enqueued(self) -> NewJob:
        """The job as it was enqueued, but for its times, which the store has made dates of."""
        job, (count, per_s, running) = self.job, self.limit
        return NewJob(
            id=job.id,
            type=job.type,
            payload=job.payload,
            queue=job.queue,
            priority=job.priority,
            max_retries=job.max_retries,
            max_kills=job.max_kills,
            timeout=job.timeout,
            idempotency_key=job.idempotency_key,
            unique_key=job.unique_key,
            owner=job.owner,
            parent_id=job.parent_id,
            batch_id=job.batch_id,
            limit_key=job.limit_key,
            limit_count=count,
            limit_per_s=per_s,
            limit_running=running,
            on_success=self.follow_ups[0],
            on_failure=self.follow_ups[1],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CarriedKey:
    """An idempotency record; `final` is the state its job ended in, for one that is no longer stored."""

    owner: str
    key: str
    job_id: str
    digest: bytes
    created_at: float
    final: Status | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CarriedBatch:
    """A batch; `told` has a bit for each callback that was enqueued: 1 on complete, 2 on success."""

    id: str
    total: int
    completed: int
    failed: int
    cancelled: int
    told: int
    created_at: float
    updated_at: float
    on_complete: NewJob | None = None
    on_success: NewJob | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Books:
    """What is not a job: settings of queues (paused, max_pending), ticks (version, due, id of the last job), counters by
    hour since 1970 (0: all that is older), batches, ageing in seconds, settings, and the audit log, oldest first."""

    queues: dict[str, tuple[bool, int]] = field(default_factory=dict)
    ticks: dict[str, tuple[str, float, str | None]] = field(default_factory=dict)
    hours: dict[int, dict[str, int]] = field(default_factory=dict)
    batches: tuple[CarriedBatch, ...] = ()
    ageing_s: float = 0.0
    settings: dict[str, str] = field(default_factory=dict)
    audit: tuple[AuditEntry, ...] = ()


@dataclass(frozen=True, slots=True)
class Sign:
    """A pool that may be running: its last beat was `age_s` ago, its lease is `lease_seconds`."""

    pool: str
    age_s: float
    lease_seconds: float


class Movable(Protocol):
    """A store that can be moved. Steps are transactions; all are safe to repeat."""

    def mark(self) -> Mark | None:
        """The mark it bears."""

    def set_mark(self, mark: Mark | None) -> None:
        """Bear this mark from now on; None: open again, and ring."""

    def signs_of_life(self) -> list[Sign]:
        """Pools that are not known to be gone."""

    def count(self) -> tuple[int, int]:
        """Jobs and idempotency records."""

    def jobs(self, at_once: int) -> Iterator[list[CarriedJob]]:
        """All jobs in the order of the line, in portions; those of a portion may be removed before the next is asked for."""

    def hold(self, jobs: Sequence[CarriedJob]) -> None:
        """Put jobs down, at the end of the line and on the disk; those that are there already stay as they are."""

    def drop(self, job_ids: Sequence[str]) -> None:
        """Remove jobs that the target has."""

    def keys(self, at_once: int) -> list[CarriedKey]:
        """Some of the idempotency records; empty when there are none left."""

    def hold_keys(self, keys: Sequence[CarriedKey]) -> None: ...

    def drop_keys(self, keys: Sequence[CarriedKey]) -> None: ...

    def books(self) -> Books:
        """Settings, ticks and counters as they are now."""

    def hold_books(self, books: Books) -> None:
        """Take them over and note so in the mark, in one step; nothing when it is noted already."""

    def drop_books(self) -> None:
        """Forget them at the source."""
