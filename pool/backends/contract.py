"""The contract of a store, by who uses it: intake, work, upkeep, inspection.

Every method is one atomic step (one transaction, one script) and its docstring is a promise; the suite in
tests/backends/contract/ tries each on every backend. A backend object belongs to one process and one thread: it
notices a fork by pid and reconnects. Foreign exceptions never leave it: callers see `pool.errors` only, of which
BackendUnavailable (and its kinds) may be raised by any method and means that nothing or an idempotent step happened.
"""

from collections.abc import Sequence
from typing import Protocol

from pool.backends.messages import (
    ANY_QUEUE,
    MAX_BATCH,
    MAX_MISFITS,
    MAX_POOL_LOSSES,
    SAME_PURGE_S,
    Answer,
    AuditEntry,
    BatchState,
    Beat,
    BeatAnswer,
    Departure,
    Finished,
    Held,
    JobFilter,
    LimitState,
    Page,
    PoolState,
    Promotion,
    QueueState,
    Recovered,
    Statistics,
    Want,
)
from pool.identity import LaneId, PoolId
from pool.jobs.job import Job, NewBatch, NewJob, Receipt, Settlement
from pool.jobs.lifecycle import Status

__all__ = [
    "ANY_QUEUE",
    "MAX_BATCH",
    "MAX_MISFITS",
    "MAX_POOL_LOSSES",
    "SAME_PURGE_S",
    "Answer",
    "AuditEntry",
    "Backend",
    "BatchState",
    "Beat",
    "BeatAnswer",
    "Departure",
    "Finished",
    "Held",
    "Inspection",
    "Intake",
    "JobFilter",
    "LimitState",
    "Page",
    "PoolState",
    "Promotion",
    "QueueState",
    "Recovered",
    "Statistics",
    "Upkeep",
    "Want",
    "Work",
]


class Intake(Protocol):
    """What producers and operators may do."""

    def enqueue(
        self,
        jobs: Sequence[NewJob],
        *,
        refuse_above: int | None = None,
        durable: bool = False,
        batch: NewBatch | None = None,
    ) -> list[Receipt]:
        """Store all jobs or none, in input order, before returning (SQLite: synced to disk).

        Repeating a call with the same ids changes nothing and gives the same answer. A known idempotency key (within
        its owner) or a live unique key answers with the first job. An empty list touches nothing, no counter either.
        `refuse_above`: QueueFull when a target queue already has more pending jobs than this, checked in the same
        step; so does a queue's own `max_pending`. CallerError for more than MAX_BATCH jobs.
        `batch`: the new ones among these jobs become its members, in the same step. Its callbacks are enqueued in the
        step in which its last member ends (`on_complete`), or completes (`on_success`), once each whatever happens to
        members afterwards; of a batch without members at once. A batch that is stored already gets no more members.
        Jobs with a `limit_key` are pending like others, but start only while their limit has room.
        """

    def cancel(self, job_id: str, *, owner: str | None = None) -> Job:
        """Scheduled or pending: cancelled at once and never runs. Running: flagged; returned still running.

        JobNotFound also for another owner's job when `owner` is given; IllegalMove when it is over. Durable.
        """

    def revive(self, job_id: str, *, payload: str | None = None, by: str = "") -> Job:
        """Failed or cancelled → pending by a person's order: retry, kill and misfit counts reset, history kept,
        `payload` replaced if given, and the history then says by whom. IllegalMove otherwise; UniqueConflict when its unique key is taken. Durable."""

    def discard(self, job_id: str) -> Job:
        """Failed → cancelled with reason `discarded`. IllegalMove otherwise. Durable."""

    def set_queue(self, queue: str, *, paused: bool | None = None, max_pending: int | None = None) -> None:
        """Change a queue's settings; they outlive restarts. None leaves a setting alone. Resuming rings. Durable."""

    def set_ageing(self, seconds: float) -> None:
        """Waiting this long is worth ten points of priority in every queue; 0 = strict priorities. Durable, rings.

        A job's place counts from its enqueue, for delayed ones and retries too. So no job of priority p is passed by one
        that was enqueued more than (100 - p) / 10 x `seconds` after it."""

    def set_setting(self, name: str, value: str) -> None:
        """Remember a text that all pools and clients of the store share. Durable."""

    def note(self, entry: AuditEntry) -> None:
        """Append to the audit log, which keeps its newest 100,000 entries. Durable."""

    def delete(self, job_ids: Sequence[str]) -> int:
        """Remove these jobs for good, unless they run; how many were removed. Durable. Frees unique keys."""

    def purge(self, queue: str, *, statuses: frozenset[Status], limit: int = 1000) -> int:
        """Remove up to `limit` jobs of the queue in these states (never running ones); 0 = nothing left. Durable.

        Frees unique keys. Only jobs that were there when the caller began are removed, so repeated calls end: all up to
        the one that answers 0 are one purge, unless its caller has been away for SAME_PURGE_S."""


class Work(Protocol):
    """What a lane does."""

    def exchange(
        self, lane: LaneId, request: int, *, settlement: Settlement | None = None, want: Want | None = None
    ) -> Answer:
        """Settle what the lane held and hand out the next job, in one step; either part may be None.

        Requests of a lane are numbered from 1, rising. The same number again gives the same answer and changes
        nothing; a lower one raises RequestRefused. A barred worker gets LaneBarred for a claim, but its settlement, if
        it still holds the job, is taken first. A settlement whose (job, lane, claim) is not current changes nothing
        and is answered `settled=False`; repeating an accepted one is harmless. Due scheduled jobs count as pending
        for the claim. Expired ones are cancelled on the way, unreadable records set aside as `invalid_record`.
        An at-most-once claim is on disk (as far as the store can) before this returns.
        A lane that still holds a job and claims again (a higher request, no settlement of it) is given that same job
        under the same claim number: this is how a worker makes sure of an old claim before it starts late.
        """

    def exchange_many(
        self,
        lanes: Sequence[LaneId],
        request: int,
        *,
        settlements: Sequence[Settlement | None],
        want: Want | None = None,
        ahead: int = 0,
        leave: int = 0,
    ) -> list[Answer]:
        """One round trip for several lanes of one worker, which runs their jobs one after the other. An answer per lane.

        `lanes[0]` leads: it does what `exchange` does, and its record numbers the call for all. The other lanes settle
        (`settlements` has their words in the order of `lanes`) under the same number. Up to `ahead` of them, in their
        order, that hold nothing afterwards are given a job each, ahead of its start: what the same want would be handed
        next, as long as that is plain - never at-most-once, limited, to run alone, expired or unreadable, nor after such
        a one - and at least `leave` jobs of its queue stay pending for others. Each lane's part is one atomic step;
        the whole need not be. The same number again, with the same words, gives the same answers.
        """

    def report(
        self, held: Held, *, progress: float | None = None, note: str | None = None, checkpoint: str | None = None
    ) -> bool:
        """Store what the running job says of itself; True when a cancel was asked for. ClaimLost when it moved on."""

    def wait(self, want: Want, seconds: float, interrupt_fd: int | None = None, *, watched: bool = False) -> bool:
        """Sleep until a job for `want` may be there, `seconds` passed or `interrupt_fd` is readable; whether it is the first.

        Wakes are hints, never promises. Opening the bell happens before the first claim (call once with seconds=0).
        In case a ring was lost the store is looked at once a second, reading only, unless somebody else does that for
        us (`watched`: a keeper, whose `promote` rings). Never raises for an absent store: it then sleeps a bounded time."""


class Upkeep(Protocol):
    """What the keeper does."""

    def beat(self, beat: Beat) -> BeatAnswer:
        """Renew the lease of everything the pool holds and compare notes. The first beat registers the pool.

        A held job that the store shows pending and never re-claimed since (a failover lost the claim) is adopted again."""

    def recover(self, departure: Departure) -> list[Recovered]:
        """Take back what a departed worker held, by the table of costs in `jobs.retry.after_loss`, and bar it.

        What had `finished` there is completed instead: its word stood on the board and had not been handed in.
        Idempotent. A cancel flag turns the job `cancelled`. Rings."""

    def rehearse(self, pool: PoolId) -> None:
        """Go through a recovery that leaves nothing behind: no job shall wait for what the first one reads and compiles."""

    def recover_expired(self) -> list[Recovered]:
        """Take back jobs whose pool or HTTP holder is gone (see PROTOCOL: watching, not dates), at no retry.

        Keeps what it saw between calls inside the backend object; call it about once a second (SQLite) or a quarter
        of the lease (Redis). Also forgets lost pools that hold nothing."""

    def leave(self, pool: PoolId) -> None:
        """The pool has ended in order: forget its record, lanes and bars. What it still holds is recovered first."""

    def promote(self, limit: int = 1000) -> Promotion:
        """Move up to `limit` due jobs to pending (and expired ones to cancelled) and ring, also for classes that sleep
        beside pending work because a ring was lost. Used-up rates that have opened meanwhile let jobs go; `next_due` is
        the next such time too. Called once a second: while nothing changes it costs next to nothing."""

    def alarm(self) -> int | None:
        """A descriptor that is readable when a time sooner than `promote` knew of has come into the store: promote then.

        To be asked for before each sleep; None where there is none now. `promote` quiets it."""

    def tick(self, schedule: str, version: str, due: float, job: NewJob | None) -> Receipt | None:
        """Record the tick `due` of a schedule entry and enqueue its job in one step; `job=None` records only.

        None when this or a later tick was already recorded by anyone. Ticks only rise and outlive job records."""

    def last_tick(self, schedule: str) -> float | None:
        """The last recorded tick (wall seconds)."""

    def last_job(self, schedule: str) -> str | None:
        """The id of the job that the last tick with a job enqueued; the job itself may be forgotten."""

    def forget(self, *, completed_s: float, failed_s: float, idempotency_s: float, limit: int = 1000) -> int:
        """Remove up to `limit` finished jobs and idempotency records older than their retention; 0 = nothing left."""


class Inspection(Protocol):
    """What anyone may look at; nothing here changes a job."""

    def job(self, job_id: str) -> Job:
        """The job with its attempts, oldest first; JobNotFound."""

    def jobs(
        self, which: JobFilter, *, after: str | None = None, limit: int = 50, within_s: float | None = None
    ) -> Page:
        """Jobs newest first (by id), without their attempts.

        A store that has to look through many for it ends after `within_s`: the page is short, and its `after` goes on."""

    def last_failed(self, limit: int = 50) -> list[Job]:
        """The dead letters that failed last, the last first, without their attempts."""

    def ahead(self, job_id: str) -> int | None:
        """How many jobs of its queue a worker would take before this pending one; None when it is not pending."""

    def batch(self, batch_id: str) -> BatchState:
        """A batch by its members' states; BatchNotFound. It is kept as long as any of its members."""

    def limits(self) -> list[LimitState]:
        """Every limit that jobs have declared, by key; one that nobody uses is forgotten in time."""

    def ageing(self) -> float:
        """What `set_ageing` said last; 0 by default."""

    def setting(self, name: str) -> str | None:
        """What `set_setting` remembered."""

    def audit(self, limit: int = 100) -> list[AuditEntry]:
        """The newest entries of the audit log, newest first."""

    def queues(self) -> list[QueueState]:
        """Every queue with a job or a setting, by name."""

    def statistics(self) -> Statistics:
        """Totals and hours; the counters are kept, not counted."""

    def pools(self) -> list[PoolState]:
        """Every pool that beats or still holds something."""

    def server_now(self) -> float:
        """The store's wall clock, which `run_at`, backoff and cron follow."""


class Backend(Intake, Work, Upkeep, Inspection, Protocol):
    """All of it. `url` is masked: safe to print."""

    kind: str
    url: str

    def ping(self) -> float:
        """Seconds one round trip to the store took; raises BackendUnavailable within 2 s."""

    def close(self) -> None:
        """Let go of files and sockets; a later call opens them again."""
