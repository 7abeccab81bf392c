"""How a job, a queue or a pool looks to a person or a program: the one place that makes their JSON documents.

Times are RFC 3339 in UTC with Z. The command line and the HTTP API print the same.
"""

import json
from collections.abc import Collection, Mapping
from typing import Any

from pool.clock import as_rfc3339
from pool.jobs.job import Attempt, Cause, Job

HIDDEN = "***"
REDACT_SETTING = "redact"  # in the store: JSON, type name -> payload fields that are never shown


def job_document(job: Job, redact: Collection[str] = ()) -> dict[str, Any]:
    """The job as in the API: payload and result as values, not as text. Payload fields in `redact` are hidden."""
    return {
        "id": job.id,
        "type": job.type,
        "queue": job.queue,
        "payload": without(as_value(job.payload), redact),
        "priority": job.priority,
        "status": job.status.value,
        "retry_count": job.retry_count,
        "max_retries": job.max_retries,
        "kill_count": job.kill_count,
        "max_kills": job.max_kills,
        "timeout": job.timeout,
        "owner": job.owner,
        "idempotency_key": job.idempotency_key,
        "unique_key": job.unique_key,
        "parent_id": job.parent_id,
        "batch_id": job.batch_id,
        "limit_key": job.limit_key,
        "run_at": as_rfc3339(job.run_at),
        "expires_at": as_rfc3339(job.expires_at),
        "claimed_at": as_rfc3339(job.claimed_at),
        "worker_id": job.worker_id,
        "cancel_requested": job.cancel_requested,
        "error": job.error,
        "exception": job.exception,
        "reason": job.reason.value if job.reason else None,
        "result": as_value(job.result),
        "progress": job.progress,
        "progress_note": job.progress_note,
        "attempts": [attempt_document(attempt) for attempt in job.attempts],
        "created_at": as_rfc3339(job.created_at),
        "updated_at": as_rfc3339(job.updated_at),
        "started_at": as_rfc3339(job.started_at),
        "finished_at": as_rfc3339(job.finished_at),
    }


def attempt_document(attempt: Attempt) -> dict[str, Any]:
    """One start of the job and how it ended."""
    return {
        "number": attempt.number,
        "worker": attempt.worker,
        "started_at": as_rfc3339(attempt.started_at),
        "ended_at": as_rfc3339(attempt.ended_at),
        "outcome": attempt.outcome.value,
        "cause": cause_document(attempt.cause) if attempt.cause else None,
        "output": attempt.output,
    }


def cause_document(cause: Cause) -> dict[str, Any]:
    """Why an attempt did not complete."""
    return {
        "reason": cause.reason.value if cause.reason else None,
        "exception": cause.exception,
        "text": cause.text,
        "stack": cause.stack,
        "signal": cause.signal,
        "exit_code": cause.exit_code,
    }


def cause_text(cause: Cause | None) -> str:
    """The cause in a few words: `ValueError: no such file`, `signal 9`, `exit code 3`; empty when there is none."""
    if cause is None:
        return ""
    if cause.exception:
        return f"{cause.exception}: {cause.text}" if cause.text else cause.exception
    if cause.text:
        return cause.text
    if cause.signal:
        return f"signal {cause.signal}"
    if cause.exit_code is not None:
        return f"exit code {cause.exit_code}"
    return cause.reason.value if cause.reason else ""


def hidden_fields(types: Mapping[str, Any]) -> dict[str, frozenset[str]]:
    """Of published types: which payload fields of each are never shown, under its name and its aliases."""
    found: dict[str, frozenset[str]] = {}
    for name, said in types.items():
        listed = said.get("redact") if isinstance(said, Mapping) else None
        if isinstance(listed, list | tuple):
            names = (name, *(said.get("aliases") or ()))
            found |= dict.fromkeys(map(str, names), frozenset(map(str, listed)))
    return found


def without(payload: Any, redact: Collection[str]) -> Any:
    """The payload with the values of these fields hidden."""
    if not redact or not isinstance(payload, dict):
        return payload
    return {field: HIDDEN if field in redact else value for field, value in payload.items()}


def as_value(text: str | None) -> Any:
    """The value of stored JSON; a text that is not JSON (a malformed record) is shown as it is."""
    if text is None:
        return None
    try:
        return json.loads(text)
    except ValueError:
        return text
