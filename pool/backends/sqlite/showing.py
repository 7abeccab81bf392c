"""Jobs as people see them: whatever is broken in a record is shown as empty, and the rest as it is."""

import json
from typing import Any

from pool.backends.sqlite import rows
from pool.backends.sqlite.transaction import Row, Transaction
from pool.jobs.job import LOCAL_OWNER, Attempt, Job
from pool.jobs.lifecycle import Reason, Status

_LAST_SECOND = 1e18  # what a clock can mean

JOB_COLUMNS = """j.rank, j.id, j.status, j.queue, j.priority, j.type, j.claims, j.retries, j.max_retries, j.kills,
  j.max_kills, j.misfits, j.losses, j.flags, j.timeout, j.run_at, j.expires_at, j.created_at, j.updated_at,
  j.claimed_at, j.started_at, j.finished_at, j.owner, j.idempotency_key, j.unique_key, j.parent, j.reason, j.error,
  j.exception, j.progress, j.progress_note, j.result, j.payload, j.lane,
  (SELECT key FROM limits WHERE id = j.limited), (SELECT id FROM batches WHERE number = j.batch)"""


def as_job(tx: Transaction, row: Row, worker_id: str | None, history: str | None = None) -> Job:
    """A row of JOB_COLUMNS."""
    _, raw_id, status, queue, priority, kind, claims = row[:7]
    flags, timeout, started_at, finished_at = row[13], row[14], _seconds(row[20]), _seconds(row[21])
    owner, key, unique_key, parent = row[22:26]
    payload, limit_key, batch = row[32], row[34], row[35]
    return Job(
        id=rows.id_for_people(raw_id),
        type=_named(tx.name, kind),
        queue=_named(tx.queue_name, queue),
        payload=payload if isinstance(payload, str) else "",
        priority=_number(priority),
        status=rows.STATUSES.get(status, Status.FAILED),
        timeout=timeout if isinstance(timeout, int | float) else 0.0,
        owner=LOCAL_OWNER if owner is None else _named(tx.name, owner),
        idempotency_key=_text(key),
        unique_key=_text(unique_key),
        parent_id=parent and rows.id_for_people(parent),
        worker_id=worker_id,
        claim=_number(claims),
        cancel_requested=bool(_number(flags) & rows.FLAG_CANCEL),
        progress=_seconds(row[29]),
        attempts=_attempts(history, started_at, finished_at),
        limit_key=_text(limit_key),
        batch_id=batch and rows.id_for_people(batch),
        **_counts(row),
        **_times(row),
        **_outcome(row),
    )


def _counts(row: Row) -> dict[str, Any]:
    """What it has used up, and what it is allowed."""
    names = ("retry_count", "max_retries", "kill_count", "max_kills", "misfits", "loss_count")
    return dict(zip(names, map(_number, row[7:13]), strict=True))


def _times(row: Row) -> dict[str, Any]:
    """`updated_at` is not stored where a claim or an end says the same."""
    run_at, expires_at, created_at, updated_at, claimed_at, started_at, finished_at = map(_seconds, row[15:22])
    created = created_at or row[0] / rows.MICROSECONDS
    return {
        "run_at": run_at or created,
        "expires_at": expires_at,
        "created_at": created,
        "updated_at": max(filter(None, (updated_at, claimed_at, finished_at)), default=created),
        "claimed_at": claimed_at,
        "started_at": started_at,
        "finished_at": finished_at,
    }


def _outcome(row: Row) -> dict[str, Any]:
    """How the job ended or stands, in words."""
    reason, error, exception, _, note, result = row[26:32]
    return {
        "reason": _as_reason(reason),
        "error": _text(error),
        "exception": _text(exception),
        "progress_note": _text(note),
        "result": _text(result),
    }


def _number(stored: Any) -> int:
    return stored if isinstance(stored, int) else 0


def _seconds(stored: Any) -> float | None:
    """A time or a share; None for what is none, or none that a calendar knows."""
    return stored if isinstance(stored, int | float) and abs(stored) < _LAST_SECOND else None


def _named(look_up: Any, number: Any) -> str:
    try:
        return str(look_up(number))
    except (ValueError, TypeError):
        return ""


def _text(stored: Any) -> str | None:
    try:
        text = rows.readable(stored)
    except ValueError:
        return repr(stored)
    return text if text is None or isinstance(text, str) else str(text)


def _as_reason(text: Any) -> Reason | None:
    try:
        return Reason(text) if text else None
    except ValueError:
        return None


def _attempts(history: str | None, started_at: float | None, finished_at: float | None) -> tuple[Attempt, ...]:
    try:
        return rows.read_attempts(history, started_at, finished_at)
    except (ValueError, TypeError):
        return ()


def read_facts(text: str) -> dict[str, Any]:
    """A pool's facts; empty when they cannot be read."""
    try:
        facts = json.loads(text)
    except (ValueError, TypeError):
        return {}
    return facts if isinstance(facts, dict) else {}
