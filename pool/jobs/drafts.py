"""From what a caller names (a job, its function, a name) and gives (arguments, options) to a checked `NewJob`."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from pool.errors import InvalidJob, UnknownType
from pool.jobs import checks
from pool.jobs.checks import Options
from pool.jobs.job import LOCAL_OWNER, Claim, NewJob
from pool.jobs.registry import JobType, registry


class Declared:
    """A function with `@pool.job` on it, perhaps with options of one call."""

    call_options: Options

    @property
    def type(self) -> JobType:
        """What the declaration says."""
        raise NotImplementedError


JobRef = Declared | Callable[..., Any] | str


def draft_call(
    job_type: JobType,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    options: Options,
    *,
    owner: str = LOCAL_OWNER,
    parent_id: str | None = None,
    max_payload: int = checks.MAX_PAYLOAD,
) -> NewJob:
    """A job from a call's arguments, which are checked against the signature."""
    if job_type.is_of_main:
        raise _of_main(job_type)
    payload = job_type.signature.payload_of(args, kwargs)
    if job_type.makes_keys:
        options = with_keys(options, job_type, payload)
    return checks.new_job(
        job_type.name,
        payload,
        job_type.terms,
        options,
        owner=owner,
        parent_id=parent_id,
        max_payload=max_payload,
        is_ours=True,
    )


def child_of(claim: Claim, ref: JobRef, /, *args: Any, **kwargs: Any) -> NewJob:
    """What `pool.current().enqueue(job, …)` makes: a child of the running job, of the same owner."""
    job_type = type_of(ref)
    if job_type is None:
        raise UnknownType(cast(str, ref), registry.known())
    return draft_call(job_type, args, kwargs, options_of(ref), owner=claim.owner, parent_id=claim.job_id)


def type_of(ref: JobRef) -> JobType | None:
    """The type a caller means; None for a name that is not known in this process. InvalidJob for a plain function."""
    if isinstance(ref, str):
        return registry.get(ref)
    if isinstance(ref, Declared):
        return ref.type
    found = registry.of(ref) if callable(ref) else None
    if found is None:
        name = getattr(ref, "__qualname__", repr(ref))
        raise InvalidJob(f"{name} is not a job: put @pool.job above it, or enqueue by name")
    return found


def options_of(ref: JobRef) -> Options:
    """The options that came with `job.options(…)`."""
    return ref.call_options if isinstance(ref, Declared) else Options()


def with_keys(options: Options, job_type: JobType, payload: str) -> Options:
    """The options, and the keys that the type's declaration makes, unless the caller gave them."""
    if job_type.unique_key is not None and options.get("unique_key") is None:
        options = {**options, "unique_key": job_type.unique_key_of(payload)}
    if job_type.limit_key is not None and options.get("limit_key") is None:
        options = {**options, "limit_key": job_type.limit_key_of(payload)}
    return options


def _of_main(job_type: JobType) -> InvalidJob:
    function = job_type.function.__qualname__
    return InvalidJob(
        f"job {function!r} is defined in __main__, the script that was started, which workers cannot import: "
        f"move it into a module (tasks.py) and import it from there, or name it: @pool.job(name='tasks.{function}')"
    )
