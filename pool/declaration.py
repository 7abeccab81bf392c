"""`@pool.job`: turns a function into a job that can be enqueued, and still be called.

Type checkers see the function's own signature on `enqueue` and its kin.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypedDict, TypeVar, Unpack, cast, overload

from pool.errors import InvalidJob
from pool.jobs import drafts
from pool.jobs.checks import (
    MAX_KILLS,
    MAX_RETRIES,
    Options,
    checked_name,
    checked_queue,
    refuse_unknown,
    whole_number,
)
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


class Declaration(TypedDict, total=False):
    """What `@pool.job` may say; left out or None = as [jobs] says."""

    name: str | None
    aliases: Sequence[str]
    queue: str | None
    priority: str | int | None
    max_retries: int | None
    backoff: BackoffRule | None
    fatal: Sequence[type[BaseException]]
    timeout: Span | None
    max_kills: int | None
    unique_key: UniqueKey | None
    redact: Sequence[str]
    limit: str
    max_running: int
    limit_key: UniqueKey | None


_CHECKS: dict[str, Callable[[Any], Any]] = {
    "queue": checked_queue,
    "priority": parse_priority,
    "max_retries": lambda value: whole_number(value, "max_retries", 0, MAX_RETRIES),
    "timeout": lambda value: parse_span(value, "timeout"),
    "max_kills": lambda value: whole_number(value, "max_kills", 1, MAX_KILLS),
}


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
        return _find_client()().enqueue_call(self, args, kwargs)

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
def job(**declaration: Unpack[Declaration]) -> Callable[[Callable[P, R]], Job[P, R]]: ...


def job(function: Callable[..., Any] | None = None, /, **declaration: Any) -> Any:
    """Declare a job: bare, or with what it says of itself (docs/jobs.md has every word). Its name is module.function."""
    refuse_unknown(declaration, Declaration)
    said = cast(Declaration, declaration)
    return functools.partial(_declared, said=said) if function is None else _declared(function, said)


def _declared(function: Callable[P, R], said: Declaration) -> Job[P, R]:
    _refuse_what_is_no_function(function)
    _refuse_empty_limit(said)
    backoff, terms = said.get("backoff"), _terms(said)
    left_out = _CHECKS.keys() - terms.keys()
    if backoff is None or isinstance(backoff, Mapping):
        left_out |= {"backoff"}
    name = said.get("name")
    declared = JobType(
        name=checked_name(_name_of(function) if name is None else name, "name"),
        function=function,
        policy=policy_from(backoff, said.get("fatal", ())),
        redact=_names(said.get("redact", ()), "redact"),
        unique_key=said.get("unique_key"),
        aliases=_names(said.get("aliases", ()), "aliases"),
        limit=said.get("limit", ""),
        max_running=whole_number(said.get("max_running", 0), "max_running", 0, MAX_COUNT),
        limit_key=said.get("limit_key"),
        **terms,
    )
    declared.signature  # noqa: B018  a signature that cannot travel is refused where it is written
    registry.add(declared, frozenset(left_out))
    return Job(function, declared.name)


def _terms(said: Declaration) -> dict[str, Any]:
    """What is said of the numbers that have a default in [jobs], checked; what is None was not said."""
    given = {field: value for field, value in said.items() if field in _CHECKS and value is not None}
    return {field: _CHECKS[field](value) for field, value in given.items()}


def _refuse_what_is_no_function(function: object) -> None:
    if isinstance(function, Job):
        raise InvalidJob(f"{function!r} is a job already; @pool.job stands twice above it")
    if not hasattr(function, "__qualname__"):
        raise InvalidJob(f"@pool.job goes above a function; {function!r} is a {type(function).__name__}")


def _refuse_empty_limit(said: Declaration) -> None:
    parse_rate(said.get("limit", ""))
    if said.get("limit_key") is not None and not (said.get("limit") or said.get("max_running")):
        raise InvalidJob('limit_key is given, but nothing is limited: add limit="100/m" or max_running=5')


def _name_of(function: Callable[..., Any]) -> str:
    return f"{function.__module__}.{function.__qualname__}".replace(".<locals>", "")


def _names(names: Sequence[str], field: str) -> tuple[str, ...]:
    listed = (names,) if isinstance(names, str) else tuple(names)  # redact="card" means the one field
    return tuple(checked_name(name, field) for name in listed)


@functools.cache
def _find_client() -> "Callable[[], Client]":
    """Found once: to import anew with each call takes longer than to draft the job, when the caller has rested."""
    from pool.client import default_client

    return default_client
