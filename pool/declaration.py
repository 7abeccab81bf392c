"""`@pool.job`: turns a function into a job that can be enqueued, and still be called.

Type checkers see the function's own signature on `enqueue` and its kin.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, Unpack, overload

from pool.errors import InvalidJob
from pool.jobs import drafts
from pool.jobs.checks import Options, checked_name, checked_queue, whole_number
from pool.jobs.job import NewJob, Receipt
from pool.jobs.limits import MAX_COUNT, parse_rate
from pool.jobs.policy import BackoffLike, policy_from
from pool.jobs.priority import parse_priority
from pool.jobs.registry import JobType, UniqueKey, registry
from pool.jobs.times import Span, When, parse_span

if TYPE_CHECKING:
    from pool.client import Client

P = ParamSpec("P")
R = TypeVar("R")

BackoffRule = BackoffLike | Mapping[type[BaseException], BackoffLike]


class Job(drafts.Declared, Generic[P, R]):
    """A declared job. Calling it runs the function here and now; the `enqueue` family stores a job for the workers.

    What they raise: InvalidPayload (names the field), InvalidJob, QueueFull, BackendUnavailable.
    """

    def __init__(self, function: Callable[P, R], name: str, options: Options | None = None) -> None:
        functools.update_wrapper(self, function)
        self._function, self._name = function, name
        self.call_options = options or Options()

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self._function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<job {self._name}>"

    @property
    def type(self) -> JobType:
        """What the declaration says, with the defaults of [jobs] filled in."""
        found = registry.get(self._name)
        if found is None:
            raise InvalidJob(f"job {self._name!r} is no longer registered")
        return found

    def options(self, **options: Unpack[Options]) -> "Job[P, R]":
        """The same job for one call: `send.options(priority="low", idempotency_key="k").enqueue(…)`."""
        return Job(self._function, self._name, {**self.call_options, **options})

    def draft(self, *args: P.args, **kwargs: P.kwargs) -> NewJob:
        """The checked job, not stored: for `enqueue_many`, `on_success` and `on_failure`."""
        return drafts.draft_call(self.type, args, kwargs, self.call_options)

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> Receipt:
        """Store the job in the configured backend; it is there when this returns."""
        return _client().enqueue_call(self, args, kwargs)

    def enqueue_in(self, seconds: Span, *args: P.args, **kwargs: P.kwargs) -> Receipt:
        """Store the job to run no sooner than this many seconds from now."""
        return self.options(delay=seconds).enqueue(*args, **kwargs)

    def enqueue_at(self, when: When, *args: P.args, **kwargs: P.kwargs) -> Receipt:
        """Store the job to run no sooner than `when`: an aware datetime, RFC 3339 text or epoch seconds."""
        return self.options(run_at=when).enqueue(*args, **kwargs)

    async def enqueue_async(self, *args: P.args, **kwargs: P.kwargs) -> Receipt:
        """`enqueue` without holding up the event loop."""
        import asyncio  # 30 ms at import, which programs without a loop need not pay

        return await asyncio.to_thread(self.enqueue, *args, **kwargs)


@overload
def job(function: Callable[P, R], /) -> Job[P, R]: ...


@overload
def job(
    *,
    name: str | None = None,
    aliases: Sequence[str] = (),
    queue: str | None = None,
    priority: str | int | None = None,
    max_retries: int | None = None,
    backoff: BackoffRule | None = None,
    fatal: Sequence[type[BaseException]] = (),
    timeout: Span | None = None,
    max_kills: int | None = None,
    unique_key: UniqueKey | None = None,
    redact: Sequence[str] = (),
    limit: str = "",
    max_running: int = 0,
    limit_key: UniqueKey | None = None,
) -> Callable[[Callable[P, R]], Job[P, R]]: ...


def job(function: Callable[..., Any] | None = None, /, **declaration: Any) -> Any:
    """Declare a job: bare, or with what it says of itself (docs/jobs.md has every word). Its name is module.function."""
    if function is not None:
        return _declared(function)
    return functools.partial(_declared, **declaration)


def _declared(
    function: Callable[P, R],
    *,
    name: str | None = None,
    aliases: Sequence[str] = (),
    queue: str | None = None,
    priority: str | int | None = None,
    max_retries: int | None = None,
    backoff: BackoffRule | None = None,
    fatal: Sequence[type[BaseException]] = (),
    timeout: Span | None = None,
    max_kills: int | None = None,
    unique_key: UniqueKey | None = None,
    redact: Sequence[str] = (),
    limit: str = "",
    max_running: int = 0,
    limit_key: UniqueKey | None = None,
) -> Job[P, R]:
    _refuse_what_is_no_function(function)
    said: dict[str, Any] = {
        "queue": None if queue is None else checked_queue(queue),
        "priority": None if priority is None else parse_priority(priority),
        "max_retries": None if max_retries is None else whole_number(max_retries, "max_retries", 0, 100),
        "timeout": None if timeout is None else parse_span(timeout, "timeout"),
        "max_kills": None if max_kills is None else whole_number(max_kills, "max_kills", 1, 100),
    }
    _refuse_empty_limit(limit, max_running, limit_key)
    left_out = {field for field, value in said.items() if value is None}
    if backoff is None or isinstance(backoff, Mapping):
        left_out.add("backoff")
    declared = JobType(
        name=checked_name(_name_of(function) if name is None else name, "name"),
        function=function,
        policy=policy_from(backoff, fatal),
        redact=_names(redact, "redact"),
        unique_key=unique_key,
        aliases=_names(aliases, "aliases"),
        limit=limit,
        max_running=whole_number(max_running, "max_running", 0, MAX_COUNT),
        limit_key=limit_key,
        **{field: value for field, value in said.items() if value is not None},
    )
    declared.signature  # noqa: B018  a signature that cannot travel is refused where it is written
    registry.add(declared, frozenset(left_out))
    return Job(function, declared.name)


def _refuse_what_is_no_function(function: object) -> None:
    if isinstance(function, Job):
        raise InvalidJob(f"{function!r} is a job already; @pool.job stands twice above it")
    if not hasattr(function, "__qualname__"):
        raise InvalidJob(f"@pool.job goes above a function; {function!r} is a {type(function).__name__}")


def _refuse_empty_limit(limit: str, max_running: int, limit_key: UniqueKey | None) -> None:
    parse_rate(limit)
    if limit_key is not None and not (limit or max_running):
        raise InvalidJob('limit_key is given, but nothing is limited: add limit="100/m" or max_running=5')


def _name_of(function: Callable[..., Any]) -> str:
    return f"{function.__module__}.{function.__qualname__}".replace(".<locals>", "")


def _names(names: Sequence[str], field: str) -> tuple[str, ...]:
    listed = (names,) if isinstance(names, str) else tuple(names)  # redact="card" means the one field
    return tuple(checked_name(name, field) for name in listed)


def _client() -> "Client":
    from pool.client import default_client

    return default_client()
