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

FORGET_LIMIT = 500  # records a step: about 20 ms of the write lock on SQLite, 7 ms of the server on Redis
FORGET_TURN_S, FORGET_SHARE = 0.03, 0.25  # so long at a time, and of the time at most this share
FORGET_EVERY_S = 60.0
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
    """Remove records whose time is over, for a moment; again soon while there are more.

    Quick enough to keep up with a pool that completes thousands of jobs a second, and never in the way of a renewal."""
    began = monotonic_now()
    while (spent := monotonic_now() - began) < FORGET_TURN_S:
        gone = backend.forget(
            completed_s=keep.completed, failed_s=keep.failed, idempotency_s=keep.idempotency, limit=FORGET_LIMIT
        )
        if gone < FORGET_LIMIT:
            return None
    return spent * (1 / FORGET_SHARE - 1)


def forget_period(keep: RetentionSection) -> float:
    """Once a minute; more often where records are kept for a short time only."""
    return min(FORGET_EVERY_S, max(1.0, min(keep.completed, keep.failed, keep.idempotency) / 10))


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
        Chore("forget old records", forget_period(config.retention), lambda now: forget(backend, config.retention)),
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
