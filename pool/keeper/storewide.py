"""The chores that a store needs whoever serves it: due jobs, lost holders, old records.

The keeper of a pool does them among its own; `jobpool serve` without a pool does these alone.
"""

import threading
from typing import Any

from pool.backends.contract import Backend, Promotion
from pool.clock import monotonic_now
from pool.keeper.chores import RETRY_S, Chore
from pool.keeper.facts import declared_types
from pool.keeper.schedule import Timetable
from pool.logs import log
from pool.settings import Config, RetentionSection

FORGET_LIMIT = 500
LONGEST_SLEEP_S = 1.0


def promote(backend: Backend) -> float | None:
    """Move due jobs to pending; sleep until the next due time, at most the usual second."""
    return pause_after(backend.promote(), backend)


def pause_after(promotion: Promotion, backend: Backend) -> float | None:
    """How long until the next promotion; None: the usual second."""
    if promotion.moved >= 1000:
        return 0.0
    if promotion.next_due is None:
        return None
    left = promotion.next_due - backend.server_now()
    return max(0.0, left) if left < LONGEST_SLEEP_S else None


def recover_expired(backend: Backend) -> None:
    """Take back what lost pools and silent holders had."""
    for job in backend.recover_expired():
        log.warning("job of a lost pool taken back", job=job.job_id, worker=job.worker, now=str(job.status))


def forget(backend: Backend, keep: RetentionSection) -> float | None:
    """Remove records whose time is over; again soon while there are more."""
    gone = backend.forget(
        completed_s=keep.completed, failed_s=keep.failed, idempotency_s=keep.idempotency, limit=FORGET_LIMIT
    )
    return 0.2 if gone >= FORGET_LIMIT else None


def apply_queue_settings(config: Config, backend: Backend) -> float:
    """Once: what `[[queues]]` says; queues that the file does not name keep what people set."""
    for queue in config.queues:
        backend.set_queue(queue.name, max_pending=queue.max_pending)
    return float("inf")


def recovery_period(lease: float) -> float:
    """Often enough for five good reads within a lease."""
    return min(5.0, lease / 8)


def run_chores(config: Config, backend: Backend, stop: threading.Event) -> None:
    """Do them in turn until told to stop; fire the schedule too, for nobody else may be there to do it."""
    timetable = Timetable(config, backend, lambda: _types_of_pools(config, backend))
    chores = [
        Chore("apply queue settings", RETRY_S, lambda now: apply_queue_settings(config, backend)),
        Chore("promote due jobs", 1.0, lambda now: promote(backend)),
        Chore("recover lost holders", recovery_period(config.backend.lease), lambda now: recover_expired(backend)),
        Chore("fire the schedule", 1.0, timetable.fire),
        Chore("forget old records", 60.0, lambda now: forget(backend, config.retention)),
    ]
    while not stop.is_set():
        for chore in chores:
            if chore.is_due(now := monotonic_now()):
                chore.attempt(now)
        next_due = min(chore.due_at for chore in chores) - monotonic_now()
        stop.wait(max(0.05, min(LONGEST_SLEEP_S, next_due)))
    backend.close()


def _types_of_pools(config: Config, backend: Backend) -> dict[str, Any]:
    """What pools have published of their types, and what this configuration declares."""
    types = declared_types(config)
    for pool in backend.pools():
        types.update(pool.facts.get("types", {}))
    return types
