"""How long a failed job waits and when it is given up: pure rules, no clock, no I/O."""

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pool.errors import GiveUp, InvalidJob, JobTimeout, RetryAfter
from pool.jobs.job import Cause
from pool.jobs.lifecycle import Reason

MAX_WAIT_S = 366 * 86_400.0
UNREADABLE_RETRY_AFTER_S = 300.0
MAX_ERROR_TEXT = 10_000
_LARGEST_GROWTH = 700.0  # e to this is a float


def _require(holds: bool, sentence: str) -> None:
    if not holds:
        raise InvalidJob(sentence)


@dataclass(frozen=True, slots=True)
class Exponential:
    """Waits that grow: retry n waits first * factor^(n-1) seconds, at most `cap`, plus a random share `jitter`."""

    first: float
    factor: float = 2.0
    cap: float = 86_400.0
    jitter: float = 0.0

    def __post_init__(self) -> None:
        _require(0 <= self.first <= MAX_WAIT_S, f"backoff: first wait {self.first!r} is not between 0 and a year (s)")
        _require(1 <= self.factor <= 1000, f"backoff: factor {self.factor!r} is not between 1 and 1000")
        _require(0 <= self.cap <= MAX_WAIT_S, f"backoff: cap {self.cap!r} is not between 0 and a year (s)")
        _require(0 <= self.jitter <= 1, f"backoff: jitter {self.jitter!r} is not between 0 and 1")

    def wait(self, retry: int) -> float:
        """Seconds before retry number `retry` (from 1), without jitter; safe for any number."""
        if self.first == 0:
            return 0.0
        # in logarithms: factor ** 2000 is no float, not even inside min()
        growth = (retry - 1) * math.log(self.factor)
        if self.first >= self.cap or math.log(self.first) + growth >= math.log(self.cap):
            return float(self.cap)
        if growth > _LARGEST_GROWTH:  # from next to nothing: the power alone is no float
            return min(float(self.cap), math.exp(math.log(self.first) + growth))
        return min(float(self.cap), self.first * self.factor ** (retry - 1))

    def delay(self, retry: int) -> float:
        """`wait` with its random share: between 1 and 1 + jitter times as long."""
        return self.wait(retry) * (1 + self.jitter * random.random())


@dataclass(frozen=True, slots=True)
class Table:
    """Waits written out: the last one repeats."""

    waits: tuple[float, ...]

    def __post_init__(self) -> None:
        _require(len(self.waits) > 0, "backoff: the table of waits is empty; give at least one number of seconds")
        for wait in self.waits:
            _require(0 <= wait <= MAX_WAIT_S, f"backoff: wait {wait!r} is not between 0 and a year (s)")

    def wait(self, retry: int) -> float:
        """Seconds before retry number `retry` (from 1)."""
        return float(self.waits[min(retry, len(self.waits)) - 1])

    def delay(self, retry: int) -> float:
        return self.wait(retry)


Backoff = Exponential | Table
BackoffLike = Backoff | Sequence[float]
DEFAULT_BACKOFF = Exponential(15, factor=2, cap=3600, jitter=0.1)


def exponential(first: float, factor: float = 2.0, *, cap: float = 86_400.0, jitter: float = 0.0) -> Exponential:
    """A backoff that grows: retry n waits first * factor^(n-1) seconds, at most `cap`, up to `jitter` longer."""
    return Exponential(first, factor, cap, jitter)


@dataclass(frozen=True, slots=True)
class Retry:
    """Try again, no sooner than `delay_s` from now; uses one retry."""

    delay_s: float
    cause: Cause


@dataclass(frozen=True, slots=True)
class Bury:
    """Give up: the job is failed with `reason`."""

    reason: Reason
    cause: Cause


@dataclass(frozen=True, slots=True)
class Policy:
    """The rules of one job type. `by_class` is asked first, most specific class of the error; then `backoff`."""

    backoff: Backoff = DEFAULT_BACKOFF
    by_class: Mapping[type[BaseException], Backoff] = field(default_factory=dict)
    fatal: tuple[type[BaseException], ...] = ()

    def judge(self, error: BaseException, *, retry_count: int, max_retries: int) -> Retry | Bury:
        """What becomes of a job whose attempt ended in `error`; first rule that fits:

        GiveUp or a fatal class → failed `fatal_error`; no retry left → failed `timeout` or `retries_exhausted`;
        else → retried after the backoff, or later where the error carries a Retry-After.
        """
        cause = cause_of(error)
        if isinstance(error, (GiveUp, *self.fatal)):
            return Bury(Reason.FATAL_ERROR, cause)
        if retry_count >= max_retries:
            return Bury(Reason.TIMEOUT if isinstance(error, JobTimeout) else Reason.RETRIES_EXHAUSTED, cause)
        backoff = self.backoff_for(error).delay(retry_count + 1)
        return Retry(max(backoff, retry_after_of(error)), cause)

    def backoff_for(self, error: BaseException) -> Backoff:
        """The backoff of the most specific class that is listed, else the type's own."""
        for ancestor in type(error).__mro__:
            if ancestor in self.by_class:
                return self.by_class[ancestor]
        return self.backoff


def policy_from(
    backoff: BackoffLike | Mapping[type[BaseException], BackoffLike] | None = None,
    fatal: Sequence[type[BaseException]] = (),
    default: Backoff = DEFAULT_BACKOFF,
) -> Policy:
    """The policy a job's declaration means: a backoff, a table of seconds, or one of either per exception class."""
    if backoff is not None and isinstance(backoff, Mapping):  # to ask None costs each worker 180 KB for the answer
        by_class = {_exception_class(error): _backoff_from(rule) for error, rule in backoff.items()}
        return Policy(default, by_class, tuple(fatal))
    return Policy(default if backoff is None else _backoff_from(backoff), {}, tuple(_exception_class(e) for e in fatal))


def retry_after_of(error: BaseException) -> float:
    """Seconds that the error itself asks to wait: `RetryAfter`, or any error with a `retry_after`; 0 without."""
    asked = error.seconds if isinstance(error, RetryAfter) else getattr(error, "retry_after", None)
    if asked is None:
        return 0.0
    if isinstance(asked, str):
        asked = RetryAfter.from_header(asked).seconds
    if isinstance(asked, bool) or not isinstance(asked, int | float) or math.isnan(asked):
        return UNREADABLE_RETRY_AFTER_S
    return float(min(max(asked, 0), MAX_WAIT_S))


def cause_of(error: BaseException) -> Cause:
    """The error as it is kept with the attempt. Its text is made storable here, cleaned of secrets by the worker."""
    reason = Reason.TIMEOUT if isinstance(error, JobTimeout) else None
    return Cause(reason=reason, exception=_class_name(type(error)), text=_text_of(error))


def _class_name(error: type[BaseException]) -> str:
    return error.__qualname__ if error.__module__ == "builtins" else f"{error.__module__}.{error.__qualname__}"


def _text_of(error: BaseException) -> str:
    try:
        text = str(error)
    except Exception as broken:  # a user's __str__ must not cost us the verdict
        text = f"(its text cannot be read: {type(broken).__name__})"
    storable = text[:MAX_ERROR_TEXT].encode("utf-8", "backslashreplace").decode("utf-8")
    return storable.replace("\0", "\\x00")[:MAX_ERROR_TEXT]


def _backoff_from(rule: BackoffLike) -> Backoff:
    if isinstance(rule, Exponential | Table):
        return rule
    if isinstance(rule, int | float) and not isinstance(rule, bool):
        return Table((float(rule),))
    if isinstance(rule, str | bytes) or not isinstance(rule, Sequence):
        raise InvalidJob(f"backoff {rule!r} is not pool.exponential(…) or a list of seconds such as [60, 300]")
    return Table(tuple(rule))


def _exception_class(error: type[BaseException]) -> type[BaseException]:
    if not (isinstance(error, type) and issubclass(error, BaseException)):
        raise InvalidJob(f"{error!r} is not an exception class; backoff and fatal take classes such as TimeoutError")
    return error
