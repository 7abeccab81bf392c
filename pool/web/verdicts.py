"""What a holder over HTTP says of its job, turned into what the store is told. Pure.

The same rules as for forked workers: `pool.jobs.policy` judges, texts are cleaned before they go anywhere.
"""

import json
from dataclasses import replace
from typing import Any

from pool.cleaning import clean
from pool.errors import GiveUp, InvalidJob, RetryAfter
from pool.jobs.checks import MAX_DEPTH
from pool.jobs.job import Cause, Job, Outcome, Settlement
from pool.jobs.lifecycle import Reason
from pool.jobs.policy import MAX_ERROR_TEXT, Bury, Policy
from pool.web.bodies import FailBody

UNNAMED = "Error"


class RemoteError(Exception):
    """An error that happened in another program."""


def completed(job: Job, claim: int, result: str | None) -> Settlement:
    return Settlement(job_id=job.id, claim=claim, outcome=Outcome.COMPLETED, result=result, started_at=job.claimed_at)


def returned(job: Job, claim: int) -> Settlement:
    """Nobody has seen the job: back at once, nothing used."""
    cause = Cause(reason=Reason.INTERRUPTED, text="the client left before it had the job")
    return Settlement(job_id=job.id, claim=claim, outcome=Outcome.RETURNED, cause=cause)


def failed(job: Job, claim: int, said: FailBody, policy: Policy) -> Settlement:
    """Another try after the type's backoff, or the end: as the policy judges."""
    error = _as_error(said)
    verdict = policy.judge(error, retry_count=job.retry_count, max_retries=job.max_retries)
    cause = Cause(exception=_storable(said.exception or UNNAMED), text=_storable(said.error)[:MAX_ERROR_TEXT])
    base = Settlement(job_id=job.id, claim=claim, outcome=Outcome.RETRIED, cause=cause, started_at=job.claimed_at)
    if job.cancel_requested:
        return replace(base, outcome=Outcome.CANCELLED, reason=Reason.CANCELLED)
    if isinstance(verdict, Bury):
        buried = replace(cause, reason=verdict.reason)
        return replace(base, outcome=Outcome.FAILED, reason=verdict.reason, cause=buried)
    return replace(base, delay=verdict.delay_s)


def result_text(result: Any, max_result: int) -> str | None:
    """The result as it is stored; InvalidJob for one of more bytes, or that no reader could follow."""
    if result is None:
        return None
    try:
        text = json.dumps(result, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        size = len(text.encode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise InvalidJob(f"the result cannot be written as JSON: {error}") from None
    if size > max_result:
        raise InvalidJob(
            f"the result has {size:,} bytes, the limit is {max_result:,} (jobs.max_result): store it elsewhere and send a reference"
        )
    if _depth(result) > MAX_DEPTH:
        raise InvalidJob(f"the result is nested deeper than {MAX_DEPTH} levels")
    return text


def _as_error(said: FailBody) -> Exception:
    if said.fatal:
        return GiveUp(said.error)
    if isinstance(said.retry_after, str):
        return RetryAfter.from_header(said.retry_after)
    return RemoteError(said.error) if said.retry_after is None else RetryAfter(said.retry_after)


def _storable(text: str) -> str:
    """Cleaned, and without what no store keeps."""
    return clean(text).encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")


def _depth(value: Any) -> int:
    level, depth = [value], 0
    while level:
        depth += 1
        level = [inner for outer in level for inner in _inside(outer)]
    return depth


def _inside(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []
