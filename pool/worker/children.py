"""Jobs that a job enqueues with its completion: checked at the call, stored with the parent's end."""

from collections.abc import Mapping
from typing import Any, cast

from pool.errors import UnknownType
from pool.jobs.checks import Options, Terms, new_job
from pool.jobs.job import Claim, NewJob
from pool.jobs.registry import JobType, registry


def make_child(parent: Claim, job: Any, payload: Mapping[str, Any] | None = None, /, **options: Any) -> NewJob:
    """The job as it will be stored; UnknownType, InvalidPayload or InvalidJob says what does not fit.

    `job` is a job function or the name of a type; `options` are those of `Client.enqueue` (queue, priority, delay, …).
    """
    job_type = _type_of(job)
    terms = Terms(
        queue=job_type.queue,
        priority=job_type.priority,
        max_retries=job_type.max_retries,
        max_kills=job_type.max_kills,
        timeout=job_type.timeout,
    )
    text = job_type.payload_of((), dict(payload or {}))
    return new_job(job_type.name, text, terms, cast(Options, options), owner=parent.owner, parent_id=parent.job_id)


def _type_of(job: Any) -> JobType:
    name = job if isinstance(job, str) else getattr(job, "name", None) or f"{job.__module__}.{job.__qualname__}"
    job_type = registry.get(name)
    if job_type is None:
        raise UnknownType(name, registry.known())
    return job_type
