"""How an attempt ended, turned into what the store is told. Pure but for the text of the error."""

from dataclasses import dataclass, replace

from pool.backends.contract import MAX_MISFITS
from pool.errors import InvalidPayload, JobCancelled, JobClaimLost, UnknownType
from pool.jobs.job import COMPLETED, Cause, Claim, NewJob, Outcome, Settlement
from pool.jobs.lifecycle import Reason
from pool.jobs.policy import Bury, Retry
from pool.jobs.registry import JobType
from pool.worker.causes import cause_from, full_cause
from pool.worker.results import ResultNotStorable
from pool.worker.timeouts import JobInterrupted

MISFIT_DELAY_S = 10.0
FALLBACK_DELAY_S = 60.0


@dataclass(slots=True)
class Ending:
    """What came out of user code: a result as JSON, or an error; and what goes along with it."""

    started_at: float | None = None
    error: BaseException | None = None
    result: str | None = None
    output: str = ""
    children: tuple[NewJob, ...] = ()


def completed(claim: Claim, ending: Ending) -> Settlement:
    settlement = Settlement(claim.job_id, claim.claim, COMPLETED)
    settlement.result, settlement.output = ending.result, ending.output
    settlement.started_at, settlement.children = ending.started_at, ending.children
    return settlement


def ended_by_error(claim: Claim, job_type: JobType, ending: Ending, error: BaseException) -> Settlement:
    """The verdict over an attempt that raised, first rule that fits:

    cancelled → cancelled; claim lost (which the store will refuse) or our own end → handed back, at most once: failed;
    result not storable → failed, since the work is done; else the type's policy.
    """
    if isinstance(error, JobCancelled):
        return _settled(claim, ending, Outcome.CANCELLED, Cause(reason=Reason.CANCELLED))
    if isinstance(error, JobClaimLost | JobInterrupted):  # should the claim be ours after all, it has started here
        outcome = Outcome.FAILED if claim.is_at_most_once else Outcome.RETURNED
        return _settled(claim, ending, outcome, Cause(reason=Reason.INTERRUPTED))
    if isinstance(error, ResultNotStorable):
        return _settled(claim, ending, Outcome.FAILED, replace(cause_from(error), reason=Reason.FATAL_ERROR))
    verdict = judge(claim, job_type, error)
    cause = full_cause(verdict.cause, error)
    if isinstance(verdict, Bury):
        return _settled(claim, ending, Outcome.FAILED, replace(cause, reason=verdict.reason))
    return _settled(claim, ending, Outcome.RETRIED, cause, delay=verdict.delay_s)


def judge(claim: Claim, job_type: JobType, error: BaseException) -> Retry | Bury:
    """The policy's verdict; a policy that fails itself must not cost us the job."""
    try:
        return job_type.policy.judge(error, retry_count=claim.retry_count, max_retries=claim.max_retries)
    except Exception:
        cause = cause_from(error)
        if claim.retry_count >= claim.max_retries:
            return Bury(Reason.RETRIES_EXHAUSTED, cause)
        return Retry(FALLBACK_DELAY_S, cause)


def misfit(claim: Claim, error: UnknownType | InvalidPayload) -> Settlement:
    """A job this code does not know or whose payload no longer fits: handed back while a deploy may be under way."""
    reason = Reason.UNKNOWN_TYPE if isinstance(error, UnknownType) else Reason.INVALID_PAYLOAD
    cause = replace(cause_from(error), reason=reason, stack=None)
    if claim.misfits >= MAX_MISFITS:
        return _settled(claim, Ending(), Outcome.FAILED, cause)
    settlement = _settled(claim, Ending(), Outcome.RETURNED, cause, delay=MISFIT_DELAY_S)
    return replace(settlement, misfit=True)


def unstarted(claim: Claim) -> Settlement:
    """Claimed, never started, because we are leaving: back at once."""
    return _settled(claim, Ending(), Outcome.RETURNED, Cause(reason=Reason.INTERRUPTED))


def not_storable(settlement: Settlement, error: Exception) -> Settlement:
    """The store refused what a job sent along with its end: the attempt is failed and says so."""
    cause = replace(cause_from(error), reason=Reason.FATAL_ERROR)
    return Settlement(
        job_id=settlement.job_id,
        claim=settlement.claim,
        outcome=Outcome.FAILED,
        reason=Reason.FATAL_ERROR,
        cause=cause,
        started_at=settlement.started_at,
    )


def _settled(claim: Claim, ending: Ending, outcome: Outcome, cause: Cause, delay: float = 0.0) -> Settlement:
    return Settlement(
        job_id=claim.job_id,
        claim=claim.claim,
        outcome=outcome,
        reason=cause.reason if outcome in (Outcome.FAILED, Outcome.CANCELLED) else None,
        delay=delay,
        cause=cause,
        output=ending.output,
        started_at=ending.started_at,
    )
