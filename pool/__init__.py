"""jobpool: a multi-process worker pool with a durable priority job queue. This is the front door.

Names are loaded at first use (PEP 562), so that `import pool` costs a caller's program next to nothing.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pool import errors, testing
    from pool.batches import Batch, batch
    from pool.client import Client, default_client, use
    from pool.declaration import Job, job
    from pool.errors import (
        BackendUnavailable,
        GiveUp,
        InvalidJob,
        InvalidPayload,
        JobCancelled,
        JobNotFound,
        JobpoolError,
        JobTimeout,
        QueueFull,
        RetryAfter,
        UnknownType,
    )
    from pool.jobs.hooks import around_job, on_dead, on_retry, on_worker_boot, on_worker_stop
    from pool.jobs.job import NewJob, Receipt
    from pool.jobs.lifecycle import Reason, Status
    from pool.jobs.policy import exponential
    from pool.jobs.priority import Priority
    from pool.worker.context import CurrentJob, current

_ERRORS = (
    "BackendUnavailable",
    "GiveUp",
    "InvalidJob",
    "InvalidPayload",
    "JobCancelled",
    "JobNotFound",
    "JobTimeout",
    "JobpoolError",
    "QueueFull",
    "RetryAfter",
    "UnknownType",
)
_HOOKS = ("around_job", "on_dead", "on_retry", "on_worker_boot", "on_worker_stop")
_HOMES = {
    **dict.fromkeys(_ERRORS, "pool.errors"),
    **dict.fromkeys(_HOOKS, "pool.jobs.hooks"),
    "Batch": "pool.batches",
    "Client": "pool.client",
    "CurrentJob": "pool.worker.context",
    "Job": "pool.declaration",
    "NewJob": "pool.jobs.job",
    "Priority": "pool.jobs.priority",
    "Reason": "pool.jobs.lifecycle",
    "Receipt": "pool.jobs.job",
    "Status": "pool.jobs.lifecycle",
    "batch": "pool.batches",
    "current": "pool.worker.context",
    "default_client": "pool.client",
    "exponential": "pool.jobs.policy",
    "job": "pool.declaration",
    "use": "pool.client",
}
_MODULES = ("errors", "testing")

__all__ = [
    "BackendUnavailable",
    "Batch",
    "Client",
    "CurrentJob",
    "GiveUp",
    "InvalidJob",
    "InvalidPayload",
    "Job",
    "JobCancelled",
    "JobNotFound",
    "JobTimeout",
    "JobpoolError",
    "NewJob",
    "Priority",
    "QueueFull",
    "Reason",
    "Receipt",
    "RetryAfter",
    "Status",
    "UnknownType",
    "around_job",
    "batch",
    "current",
    "default_client",
    "errors",
    "exponential",
    "job",
    "on_dead",
    "on_retry",
    "on_worker_boot",
    "on_worker_stop",
    "testing",
    "use",
]


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name in _MODULES:
        return import_module(f"pool.{name}")
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'pool' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(home), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
