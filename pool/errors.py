"""Every error of ours, by whose matter it is: the caller's, the world's, or a claim that has moved on.

An error takes the evidence and writes its own sentence; it names the thing and, where there is one, the remedy.
"""

from collections.abc import Iterable
from difflib import get_close_matches

from pool.clock import wall_now


class JobpoolError(Exception):
    """Base of every error that jobpool raises on purpose."""


# ---------------------------------------------------------------- the caller's


class CallerError(JobpoolError):
    """The request is wrong and will be wrong again; nothing was changed."""


class ConfigError(CallerError):
    """The configuration cannot be used; the command line exits with 78."""


class InvalidJob(CallerError):
    """A field of the job is out of its range or form."""


class UnknownType(InvalidJob):
    """No function, command or declaration is known under this job type."""

    def __init__(self, name: str, known: Iterable[str] = ()) -> None:
        self.name, self.known = name, sorted(known)
        near = get_close_matches(name, self.known, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        listing = ", ".join(self.known[:20]) if self.known else "none"
        super().__init__(f"unknown job type {name!r}.{hint} Known types: {listing}")


class InvalidPayload(InvalidJob):
    """The payload does not fit the job's signature; `problems` maps a field to what is wrong with it."""

    def __init__(self, type_name: str, problems: dict[str, str]) -> None:
        self.type_name, self.problems = type_name, problems
        listing = "; ".join(f"{field}: {problem}" for field, problem in problems.items())
        super().__init__(f"payload of {type_name!r} does not fit: {listing}")


class PayloadTooLarge(InvalidJob):
    """The payload's JSON has more bytes than `jobs.max_payload`."""

    def __init__(self, size: int, limit: int) -> None:
        self.size, self.limit = size, limit
        super().__init__(
            f"payload has {size:,} bytes, the limit is {limit:,} (jobs.max_payload): store it elsewhere and pass a reference"
        )


class JobNotFound(CallerError):
    """No job with this id is stored (any more)."""

    def __init__(self, job_id: str) -> None:
        self.job_id = job_id
        super().__init__(f"no job {job_id!r}: it was never enqueued here, or its retention is over")


class BatchNotFound(CallerError):
    """No batch with this id is stored (any more)."""

    def __init__(self, batch_id: str) -> None:
        self.batch_id = batch_id
        super().__init__(f"no batch {batch_id!r}: it was never enqueued here, or its retention is over")


class BatchClosed(CallerError):
    """A batch gets all its members when it is enqueued; nothing was enqueued."""

    def __init__(self, batch_id: str) -> None:
        self.batch_id = batch_id
        super().__init__(f"batch {batch_id} is stored already, with other jobs: make a new one for these")


class IllegalMove(CallerError):
    """The job is not in a state from which this move is legal; nothing was changed."""

    def __init__(self, move: str, status: str, job_id: str = "") -> None:
        self.move, self.status, self.job_id = move, status, job_id
        which = f"job {job_id}" if job_id else "a job"
        super().__init__(f"cannot {move} {which}: it is {status}")


class QueueFull(CallerError):
    """The queue is longer than the caller or the queue's `max_pending` allows; nothing was enqueued."""

    def __init__(self, queue: str, pending: int, limit: int) -> None:
        self.queue, self.pending, self.limit = queue, pending, limit
        super().__init__(f"queue {queue!r} is full: {pending:,} jobs wait, the limit is {limit:,}; try again later")


class UniqueConflict(CallerError):
    """Another live job holds the same unique key; a job cannot come back to life beside it."""

    def __init__(self, unique_key: str, holder: str) -> None:
        self.unique_key, self.holder = unique_key, holder
        super().__init__(f"unique key {unique_key!r} is held by live job {holder}")


# ---------------------------------------------------------------- the world's


class WorldError(JobpoolError):
    """Something outside is in the way; the same call may succeed later."""


class BackendUnavailable(WorldError):
    """The store did not answer or refused to serve."""

    def __init__(self, where: str, why: str) -> None:
        self.where, self.why = where, why
        super().__init__(f"backend {where} is not available: {why}")


class BackendBusy(BackendUnavailable):
    """The write lock was not free within the wait; `holder_pid` had it (0 = unknown)."""

    def __init__(self, where: str, waited_s: float, holder_pid: int = 0) -> None:
        self.waited_s, self.holder_pid = waited_s, holder_pid
        holder = f"process {holder_pid} holds it" if holder_pid else "another process holds it"
        super().__init__(where, f"write lock not free after {waited_s:.1f} s; {holder}")


class BackendFull(BackendUnavailable):
    """The store has no room (disk full, memory limit); nothing of this call was stored."""


class OutcomeUnknown(BackendUnavailable):
    """The connection broke after sending: the jobs may or may not be stored. Enqueue again with the same ids."""

    def __init__(self, where: str, why: str, job_ids: Iterable[str]) -> None:
        self.job_ids = tuple(job_ids)
        super().__init__(where, f"{why}; unknown whether enqueued: {', '.join(self.job_ids[:5])}")


class StoreTooNew(BackendUnavailable):
    """The store was written by a newer jobpool."""

    def __init__(self, where: str, found: int, known: int) -> None:
        super().__init__(
            where, f"its schema is version {found}, this jobpool knows up to {known}: upgrade jobpool here"
        )


class StoreMoved(BackendUnavailable):
    """The store is being moved, or has been: it takes nothing new. `peer` is the other store, without passwords."""

    def __init__(self, where: str, role: str, peer: str, *, is_over: bool) -> None:
        self.peer, self.is_over = peer, is_over
        if is_over:
            why = f"its jobs have been moved to {peer}: set backend.url to that"
        elif role == "source":
            why = f"it is being moved to {peer}; try again when `jobpool move` has ended"
        else:
            why = f"the jobs of {peer} are being moved here; try again when `jobpool move` has ended"
        super().__init__(where, why)


class WaitedTooLong(WorldError, TimeoutError):
    """The job was not over when the caller's patience was."""

    def __init__(self, job_id: str, status: str, timeout: float) -> None:
        self.job_id, self.status, self.timeout = job_id, status, timeout
        super().__init__(f"job {job_id} is still {status} after {timeout:g} s")


# ---------------------------------------------------------------- a claim that has moved on


class ClaimLost(JobpoolError):
    """The job is no longer held under this claim; what the holder has must be dropped."""

    def __init__(self, job_id: str, claim: int) -> None:
        self.job_id, self.claim = job_id, claim
        super().__init__(f"claim {claim} of job {job_id} is lost")


class LaneBarred(JobpoolError):
    """This worker was declared dead and its jobs given away; it must leave."""

    def __init__(self, lane: str) -> None:
        self.lane = lane
        super().__init__(f"lane {lane} is barred: its worker was declared dead")


class RequestRefused(JobpoolError):
    """An old request of a lane arrived after a newer one; it changed nothing."""

    def __init__(self, lane: str, request: int, last: int) -> None:
        self.lane, self.request, self.last = lane, request, last
        super().__init__(f"lane {lane}: request {request} is older than {last}")


# ---------------------------------------------------------------- what a job may raise


class RetryAfter(Exception):
    """Raised by a job: try again, no sooner than `seconds` from now (the backoff may make it later)."""

    def __init__(self, seconds: float, why: str = "") -> None:
        self.seconds = float(seconds)
        super().__init__(why or f"retry after {self.seconds:g} s")

    @classmethod
    def from_header(cls, value: str | None, why: str = "", *, now: float | None = None) -> "RetryAfter":
        """From an HTTP `Retry-After` value: seconds or an HTTP date (RFC 9110); missing or unreadable counts as 300 s."""
        return cls(_seconds_from_header(value or "", wall_now() if now is None else now), why)


def _seconds_from_header(value: str, now: float) -> float:
    if value.strip().isascii() and value.strip().isdigit():
        return float(value.strip()[:12])
    from email.utils import parsedate_to_datetime  # costs 10 ms at import; few jobs meet a date

    try:
        return max(0.0, parsedate_to_datetime(value.strip()).timestamp() - now)
    except (ValueError, TypeError, IndexError, OverflowError):
        return 300.0


class GiveUp(Exception):
    """Raised by a job: this can never succeed; fail it now without retries."""


class JobStopped(BaseException):
    """Raised inside user code to end a job early. Not an `Exception`, so that a broad `except` cannot swallow it."""


class JobTimeout(JobStopped):
    """The job ran longer than its timeout."""


class JobCancelled(JobStopped):
    """The job was cancelled while it ran."""


class JobClaimLost(JobStopped):
    """The job was given to another worker; its result would be refused."""
