"""From settings to what a worker serves."""

from pool.backends.contract import Want
from pool.jobs.internal import OWN_QUEUES
from pool.settings import Config, WorkerKeys


def want_of(config: Config, settings: WorkerKeys) -> Want:
    """What workers of these settings serve."""
    return Want(
        queues=tuple(settings.queues),
        min_priority=settings.min_priority,
        max_priority=settings.max_priority,
        reserved=(*(declared.queue for declared in config.types), *OWN_QUEUES),
    )
