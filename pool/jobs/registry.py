"""The job types this process knows: what `@pool.job` fills and workers look up."""

import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import CodeType
from typing import TYPE_CHECKING, Any

from pool.errors import InvalidJob
from pool.jobs.checks import Terms
from pool.jobs.payload import Signature
from pool.jobs.policy import DEFAULT_BACKOFF, Backoff, Exponential, Policy

if TYPE_CHECKING:
    from pool.settings import JobsSection

MAX_RESULT = 1_048_576  # bytes of JSON; [jobs] max_result

UniqueKey = str | Callable[..., str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Defaults:
    """What holds where a job type says nothing itself: the `[jobs]` table of the configuration."""

    queue: str = "default"
    priority: int = 10
    max_retries: int = 3
    timeout: float = 0.0
    max_kills: int = 3
    backoff: Backoff = DEFAULT_BACKOFF
    max_result: int = MAX_RESULT

    @property
    def policy(self) -> Policy:
        return Policy(self.backoff)

    @property
    def terms(self) -> Terms:
        """What holds for a type of which nothing is known."""
        return Terms(
            queue=self.queue,
            priority=self.priority,
            max_retries=self.max_retries,
            max_kills=self.max_kills,
            timeout=self.timeout,
        )


def defaults_from(jobs: "JobsSection") -> Defaults:
    """The defaults that the `[jobs]` table of the configuration sets."""
    rule = jobs.backoff
    return Defaults(
        max_retries=jobs.max_retries,
        timeout=jobs.timeout,
        max_kills=jobs.max_kills,
        max_result=jobs.max_result,
        backoff=Exponential(rule.first, rule.factor, rule.cap, rule.jitter),
    )


@dataclass(frozen=True, kw_only=True)
class JobType:
    """A job type with everything its declaration says. From `registry.get` all its numbers are filled in.

    `name` is `module.function` unless given; old names live on as `aliases`. `redact` are payload fields never shown.
    """

    name: str
    function: Callable[..., Any]
    queue: str = "default"
    priority: int = 10
    max_retries: int = 3
    timeout: float = 0.0
    max_kills: int = 3
    policy: Policy = field(default_factory=Policy)
    redact: tuple[str, ...] = ()
    unique_key: UniqueKey | None = None
    aliases: tuple[str, ...] = ()
    limit: str = ""
    max_running: int = 0
    limit_key: UniqueKey | None = None

    @cached_property
    def signature(self) -> Signature:
        return Signature(self.name, self.function)

    @cached_property
    def is_async(self) -> bool:
        return inspect.iscoroutinefunction(self.function)

    @cached_property
    def is_of_main(self) -> bool:
        """Whether it is named after `__main__`: then no worker can import it."""
        return self.name.startswith("__main__.")

    @cached_property
    def makes_keys(self) -> bool:
        """Whether a job's keys may come from its payload."""
        return self.unique_key is not None or self.limit_key is not None

    @property
    def bare_name(self) -> str:
        return self.name.rpartition(".")[2]

    def arguments(self, payload: str) -> dict[str, Any]:
        """Keyword arguments for `function` from JSON text; InvalidPayload names the fields that do not fit."""
        return self.signature.arguments(payload)

    def schema(self) -> dict[str, Any]:
        """JSON Schema of the payload."""
        return self.signature.schema()

    def checked(self, payload: str) -> str:
        """Foreign JSON text as this process would have written it; InvalidPayload names the fields that do not fit."""
        return self.signature.checked(payload)

    def published(self) -> dict[str, Any]:
        """What a pool says of this type to clients that enqueue by name. A callable unique key cannot travel."""
        return {
            "queue": self.queue,
            "priority": self.priority,
            "max_retries": self.max_retries,
            "timeout": self.timeout,
            "max_kills": self.max_kills,
            "unique_key": self.unique_key if isinstance(self.unique_key, str) else None,
            "limit": self.limit,
            "max_running": self.max_running,
            "limit_key": self.limit_key if isinstance(self.limit_key, str) else None,
            "aliases": list(self.aliases),
            "redact": list(self.redact),
            "schema": self.schema(),
        }

    @cached_property
    def terms(self) -> Terms:
        """What its declaration says of each of its jobs."""
        return Terms(
            queue=self.queue,
            priority=self.priority,
            max_retries=self.max_retries,
            max_kills=self.max_kills,
            timeout=self.timeout,
            limit=self.limit,
            max_running=self.max_running,
        )

    def unique_key_of(self, payload: str) -> str | None:
        """The unique key of a job with this payload: the template filled in, or what the callable returns."""
        return self._key_of(payload, self.unique_key, "unique_key")

    def limit_key_of(self, payload: str) -> str | None:
        """What a job with this payload is counted under; None: under the type's name."""
        return self._key_of(payload, self.limit_key, "limit_key")

    def _key_of(self, payload: str, key: UniqueKey | None, field: str) -> str | None:
        if key is None:
            return None
        return made_key(self.name, key, self.signature.with_defaults(self.arguments(payload)), field)


def made_key(type_name: str, key: UniqueKey, arguments: Mapping[str, Any], field: str = "unique_key") -> str:
    """The template filled in with the arguments, or what the callable returns for them."""
    try:
        return key.format(**arguments) if isinstance(key, str) else key(**arguments)
    except (KeyError, IndexError, AttributeError, TypeError, ValueError) as error:
        raise InvalidJob(f"{field} of job {type_name!r} cannot be made: {type(error).__name__}: {error}") from error


@dataclass(frozen=True, slots=True)
class Entry:
    """A registered type: as declared, which of its numbers the declaration left out, and the code that ran it."""

    declared: JobType
    left_out: frozenset[str]
    defined_by: CodeType | None


class Registry:
    """Job types by name. `defaults` may be replaced at any time and hold for all types that say nothing themselves."""

    def __init__(self, defaults: Defaults | None = None) -> None:
        self._defaults = defaults or Defaults()
        self._entries: dict[str, Entry] = {}
        self._resolved: dict[str, JobType] = {}

    @property
    def defaults(self) -> Defaults:
        return self._defaults

    @defaults.setter
    def defaults(self, defaults: Defaults) -> None:
        self._defaults = defaults
        self._resolved.clear()

    def add(self, declared: JobType, left_out: frozenset[str] = frozenset()) -> None:
        """Register a type; InvalidJob when its name or an alias belongs to another function."""
        entry = Entry(declared, left_out, _defining_code(declared.function))
        for name in (declared.name, *declared.aliases):
            self._refuse_taken(name, entry)
        self._entries[declared.name] = entry
        self._resolved.clear()

    def get(self, name: str) -> JobType | None:
        """The type of this full name, alias or unambiguous bare function name; None when there is none."""
        return self._resolved.get(name) or self._resolve(name)

    def _resolve(self, name: str) -> JobType | None:
        entry = self._find(name)
        if entry is None:
            return None
        full_name = entry.declared.name
        found = self._resolved[name] = self._resolved.setdefault(full_name, self._filled_in(entry))
        return found

    def of(self, function: Callable[..., Any]) -> JobType | None:
        """The type that this very function was declared as; None when it is no job."""
        names = (entry.declared.name for entry in self._entries.values() if entry.declared.function is function)
        name = next(names, None)
        return None if name is None else self.get(name)

    def known(self) -> list[str]:
        """Full names, sorted."""
        return sorted(self._entries)

    def types(self) -> list[JobType]:
        """All types, by name."""
        return [found for name in self.known() if (found := self.get(name)) is not None]

    def published(self) -> dict[str, dict[str, Any]]:
        """All types as a pool publishes them, by name."""
        return {job_type.name: job_type.published() for job_type in self.types()}

    def entries(self) -> dict[str, Entry]:
        """What is registered now, to be given to `restore` later."""
        return dict(self._entries)

    def restore(self, entries: dict[str, Entry]) -> None:
        """Forget what was registered since (a test's own jobs)."""
        self._entries = dict(entries)
        self._resolved.clear()

    def _find(self, name: str) -> Entry | None:
        if name in self._entries:
            return self._entries[name]
        by_alias = [entry for entry in self._entries.values() if name in entry.declared.aliases]
        by_bare_name = [entry for entry in self._entries.values() if name == entry.declared.bare_name]
        found = by_alias or by_bare_name
        return found[0] if len(found) == 1 else None

    def _filled_in(self, entry: Entry) -> JobType:
        values: dict[str, Any] = {name: getattr(self._defaults, name) for name in entry.left_out - {"backoff"}}
        if "backoff" in entry.left_out:
            values["policy"] = replace(entry.declared.policy, backoff=self._defaults.backoff)
        return replace(entry.declared, **values)

    def _refuse_taken(self, name: str, entry: Entry) -> None:
        for other in self._entries.values():
            if name in (other.declared.name, *other.declared.aliases) and not _is_same_definition(other, entry):
                raise InvalidJob(
                    f"job type {name!r} is already taken by {_place(other.declared.function)}; "
                    f"give {_place(entry.declared.function)} another name with @pool.job(name=…)"
                )


def _is_same_definition(old: Entry, new: Entry) -> bool:
    """Whether `new` is `old` again (its module was reloaded), so that it may take its place."""
    before, now = old.declared.function, new.declared.function
    if (before.__module__, before.__qualname__) != (now.__module__, now.__qualname__):
        return False
    if new.defined_by is None or new.defined_by is not old.defined_by:
        return True
    return before.__code__ is now.__code__ and not now.__closure__


def _defining_code(function: Callable[..., Any]) -> CodeType | None:
    """The code that is running the definition: one run of a module body has one, a reload brings a new one."""
    frame = sys._getframe()
    while frame is not None and frame.f_globals is not getattr(function, "__globals__", None):
        frame = frame.f_back  # type: ignore[assignment]
    return frame.f_code if frame is not None else None


def _place(function: Callable[..., Any]) -> str:
    code = getattr(function, "__code__", None)
    where = f" ({code.co_filename}:{code.co_firstlineno})" if code else ""
    return f"{function.__module__}.{function.__qualname__}{where}"


registry = Registry()
