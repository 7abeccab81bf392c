"""What a job returned, as JSON text that any store can keep; or a clear error, never a dead worker."""

import json
import re
from collections.abc import Iterator
from typing import Any

from pydantic_core import to_jsonable_python

from pool.errors import JobpoolError
from pool.jobs.checks import MAX_DEPTH
from pool.jobs.registry import registry

_STRUCTURE = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{}]')


class ResultNotStorable(JobpoolError):
    """The job did its work but returned something that cannot be kept; running it again would not help."""

    def __init__(self, why: str) -> None:
        super().__init__(f"the job ran to its end, but its result cannot be stored as JSON: {why}")


def to_json(value: Any) -> str | None:
    """A job's result as JSON text (None for None), at most `[jobs] max_result` bytes; else ResultNotStorable."""
    if value is None:
        return None
    text = json_text(value)
    size, limit = len(text.encode()), registry.defaults.max_result
    if size > limit:
        raise ResultNotStorable(
            f"it has {size:,} bytes, the limit is {limit:,} (jobs.max_result): store it elsewhere and return a reference"
        )
    return text


def json_text(value: Any) -> str:
    """JSON text: plain values, and datetime, UUID, Decimal, Enum, dataclasses, models; ResultNotStorable for others."""
    try:
        text = _ENCODER.encode(value)
        text.encode("utf-8")
    except RecursionError:
        raise ResultNotStorable("it is nested too deep") from None
    except UnicodeEncodeError:
        raise ResultNotStorable("it holds a lone surrogate, which is not a character") from None
    except Exception as error:
        raise ResultNotStorable(_reason(error)) from None
    if is_deeper_than_readers_follow(text):
        raise ResultNotStorable(f"it is nested deeper than {MAX_DEPTH} levels")
    return text


def is_deeper_than_readers_follow(text: str) -> bool:
    """Whether some JSON readers would give up. Few opening brackets settle it without a walk."""
    if text.count("[") + text.count("{") <= MAX_DEPTH:
        return False
    depth = deepest = 0
    for token in _STRUCTURE.findall(text):
        depth += (token in "[{") - (token in "]}")
        deepest = max(deepest, depth)
    return deepest > MAX_DEPTH


def _rich(value: Any) -> Any:
    """For the encoder: a richer value as plain ones. Sets, bytes, files and generators have no single form in JSON and are refused."""
    if isinstance(value, set | frozenset | bytes | bytearray | memoryview | Iterator):
        raise TypeError(f"it holds a {type(value).__name__}, which has no form in JSON: convert it first")
    return to_jsonable_python(value, inf_nan_mode="constants")


def _reason(error: Exception) -> str:
    text = str(error)
    known = {"Circular reference detected": "it contains itself"}
    if text.startswith("Out of range float"):
        return "it holds NaN or an infinity"
    return known.get(text, text.partition("\n")[0][:300] or type(error).__name__)


_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_rich)
