"""What the monitoring panel shows (`GET /admin/queues`): a snapshot of the store, counted there."""

from typing import Any

from pool.backends.contract import Backend, QueueState, Statistics
from pool.clock import as_rfc3339
from pool.jobs.job import Job

LAST_DEAD = 10
ERROR_CHARACTERS = 160
Document = dict[str, Any]


def panel(store: Backend, configured: list[str]) -> Document:
    """The whole panel; queues of the configuration that hold nothing are shown as 0."""
    now, numbers = store.server_now(), store.statistics()
    states = store.queues()
    dead = store.last_failed(LAST_DEAD)
    return {
        "generated_at": as_rfc3339(now),
        "queues": _lengths(states, configured),
        "delayed": _delayed(numbers, now),
        "dead": {"total": sum(state.failed for state in states), "last": [_dead_letter(job) for job in dead]},
        "stats": _stats(numbers),
        "backend": numbers.backend,
    }


def _lengths(states: list[QueueState], configured: list[str]) -> Document:
    """Jobs that are due and wait, by queue; `total` is all of them."""
    lengths = {**dict.fromkeys(configured, 0), **{state.name: state.pending for state in states}}
    return {**dict(sorted(lengths.items())), "total": sum(lengths.values())}


def _delayed(numbers: Statistics, now: float) -> Document:
    due = numbers.next_due
    next_in = None if due is None else round(max(0.0, due - now), 3)
    return {"total": numbers.delayed, "overdue": numbers.overdue, "next_in_s": next_in}


def _dead_letter(job: Job) -> Document:
    return {
        "job": job.id,
        "type": job.type,
        "reason": job.reason.value if job.reason else None,
        "error": (job.error or "")[:ERROR_CHARACTERS],
        "attempts": job.retry_count + 1,
        "failed_at": as_rfc3339(job.finished_at),
    }


def _stats(numbers: Statistics) -> Document:
    done, dead = numbers.completed, numbers.failed
    return {
        "enqueued": numbers.enqueued,
        "succeeded": done,
        "retried": numbers.retried,
        "dead": dead,
        "success_rate": round(100 * done / (done + dead), 2) if done + dead else 100.0,
        "last_24h": [_hour(hour) for hour in numbers.hours],
    }


def _hour(hour: Document) -> Document:
    return {
        "hour": hour["hour"],
        "enqueued": hour["enqueued"],
        "succeeded": hour["completed"],
        "retried": hour["retried"],
        "dead": hour["failed"],
    }
