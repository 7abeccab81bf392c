"""What a caller asks for, checked and made into a `NewJob`. Every refusal is a sentence that names the field."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property, partial
from typing import Any, TypedDict

from pool.errors import InvalidJob, PayloadTooLarge
from pool.jobs.ids import is_job_id, new_job_id
from pool.jobs.job import LOCAL_OWNER, NewJob
from pool.jobs.limits import MAX_COUNT, parse_rate
from pool.jobs.priority import parse_priority
from pool.jobs.times import Span, When, parse_span, parse_time

MAX_NAME = 200
MAX_PAYLOAD = 65_536
MAX_RETRIES = 100
MAX_KILLS = 100
MAX_DEPTH = 128  # every JSON reader on the way can follow


class Options(TypedDict, total=False):
    """What a caller may say of one job; left out or None = as its type says."""

    queue: str | None
    priority: str | int | None
    max_retries: int | None
    max_kills: int | None
    timeout: Span | None
    run_at: When | None
    delay: Span | None
    expires_in: Span | None
    idempotency_key: str | None
    unique_key: str | None
    limit_key: str | None
    job_id: str | None
    on_success: NewJob | None
    on_failure: NewJob | None


@dataclass(frozen=True, kw_only=True)
class Terms:
    """What the job's type says, complete."""

    queue: str = "default"
    priority: int = 10
    max_retries: int = 3
    max_kills: int = 3
    timeout: float = 0.0
    limit: str = ""
    max_running: int = 0

    def checked(self, type_name: str, given: frozenset[str]) -> dict[str, Any]:
        """What is decided of a job whose caller gives these options itself: the same for each, so it is looked at once."""
        known = self._checked.get((type_name, given))
        if known is None:
            own = {name: getattr(self, name) for name in _OF_TYPE - given}
            known = {"type": checked_name(type_name, "type"), **_each_checked(own), **self._limit(type_name)}
            self._checked[type_name, given] = known
        return known

    @property
    def is_limited(self) -> bool:
        return bool(self.limit or self.max_running)

    @cached_property
    def _checked(self) -> dict[tuple[str, frozenset[str]], dict[str, Any]]:
        return {}

    def _limit(self, type_name: str) -> dict[str, Any]:
        if not self.is_limited:
            return {}
        rate = parse_rate(self.limit)
        running = whole_number(self.max_running, "max_running", 0, MAX_COUNT)
        numbers = {"limit_count": rate.count, "limit_per_s": rate.per_s, "limit_running": running}
        return {"limit_key": type_name, **numbers}


def new_job(
    type_name: str,
    payload: str,
    terms: Terms,
    options: Options,
    *,
    owner: str = LOCAL_OWNER,
    parent_id: str | None = None,
    max_payload: int = MAX_PAYLOAD,
    is_ours: bool = False,
) -> NewJob:
    """The job as it will be stored; InvalidJob names the field that is out of range or form.

    `payload` is JSON text that already fits the type, where the type is known; `is_ours` as in `checked_payload`.
    """
    given = _given(options) if options else None
    text = checked_payload(payload, max_payload, is_ours=is_ours)
    if not given:
        fields = terms.checked(type_name, _NOTHING)
        return NewJob(id=new_job_id(), payload=text, owner=owner, parent_id=parent_id, **fields)
    fields = {**terms.checked(type_name, frozenset(given)), **_each_checked(given)}
    if not terms.is_limited:
        fields.pop("limit_key", None)
    job_id = fields.pop("job_id", None) or new_job_id()
    return NewJob(id=job_id, payload=text, owner=owner, parent_id=parent_id, **fields)


def _given(options: Options) -> dict[str, Any]:
    """The options that say something."""
    refuse_unknown(options, Options)
    given = {name: value for name, value in options.items() if value is not None}
    if "run_at" in given and "delay" in given:
        raise InvalidJob("run_at and delay are both given; give one of the two")
    return given


def _each_checked(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _CHECKS[name](value) for name, value in fields.items()}


def payload_text(value: Any) -> str:
    """A JSON object as text, for types whose signature is not known here; InvalidJob for anything else."""
    if not isinstance(value, Mapping):
        raise InvalidJob(
            f"payload is a {type(value).__name__}; it must be a JSON object with the job's arguments by name"
        )
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidJob(f"payload cannot be written as JSON: {error}") from None


def checked_payload(text: str, max_payload: int = MAX_PAYLOAD, *, is_ours: bool = False) -> str:
    """JSON text of an object, storable, not longer than the limit in UTF-8 bytes and not nested out of reach.

    `is_ours`: written by one of our own writers from an object, so that all it may be is too long or too deep.
    """
    size = len(text) if text.isascii() else _size(text)
    if size > max_payload:
        raise PayloadTooLarge(size, max_payload)
    if is_ours and is_shallow(text):
        return text
    try:
        value = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise InvalidJob(f"payload is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise InvalidJob("payload must be a JSON object with the job's arguments by name")
    _refuse_unstorable(value)
    return text


def is_shallow(text: str) -> bool:
    """Whether JSON has so few brackets, in texts too, that it cannot be nested out of reach."""
    return len(text) < MAX_DEPTH or text.count("{") + text.count("[") < MAX_DEPTH


def checked_name(value: object, field: str) -> str:
    """A type's, queue's or key's name: text of 1 to 200 characters, none of them a control or a lone surrogate."""
    if not isinstance(value, str):
        raise InvalidJob(f"{field} is a {type(value).__name__}, it must be text")
    if not 1 <= len(value) <= MAX_NAME:
        raise InvalidJob(f"{field} has {len(value):,} characters, it must have 1 to {MAX_NAME}")
    if not value.isprintable() and any(map(_is_unprintable, value)):
        raise InvalidJob(f"{field} {value!a} has a control character or half a character in it")
    if value != value.strip():
        raise InvalidJob(f"{field} {value!r} begins or ends with a space")
    return value


def checked_queue(value: object) -> str:
    """A queue's name; `*` and commas mean something else where queues are listed."""
    name = checked_name(value, "queue")
    if name == "*" or "," in name:
        raise InvalidJob(f"queue {name!r}: a queue cannot be called * or have a comma in its name")
    return name


def refuse_unknown(said: Mapping[str, Any], known: type) -> None:
    """InvalidJob for a word that is no key of `known`, a TypedDict."""
    for name in said.keys() - known.__annotations__.keys():
        near = get_close_matches(name, known.__annotations__, n=1)
        raise InvalidJob(f"unknown field {name!r}{f'; did you mean {near[0]!r}?' if near else ''}")


def whole_number(value: object, field: str, lowest: int, highest: int) -> int:
    """The value, if it is an integer from lowest to highest; InvalidJob names the field otherwise."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidJob(f"{field} {value!r} is not a whole number")
    if not lowest <= value <= highest:
        raise InvalidJob(f"{field} {value} is out of range: use {lowest} to {highest}")
    return value


def _positive_span(value: Span, field: str) -> float:
    seconds = parse_span(value, field)
    if seconds == 0:
        raise InvalidJob(f"{field} is 0: the job would never start; leave it out for no expiry")
    return seconds


def _id(given: object) -> str:
    if not (isinstance(given, str) and is_job_id(given)):
        raise InvalidJob(f"job_id {given!r} is not a UUIDv7 in lower case; leave it out to have one made")
    return given


def _follow_up(value: object, field: str) -> NewJob:
    if isinstance(value, NewJob):
        return value
    raise InvalidJob(f"{field} is a {type(value).__name__}; make the follow-up with job.draft(…)")


_CHECKS: dict[str, Callable[[Any], Any]] = {
    "queue": checked_queue,
    "priority": parse_priority,
    "max_retries": partial(whole_number, field="max_retries", lowest=0, highest=MAX_RETRIES),
    "max_kills": partial(whole_number, field="max_kills", lowest=1, highest=MAX_KILLS),
    "timeout": partial(parse_span, field="timeout"),
    "run_at": partial(parse_time, field="run_at"),
    "delay": partial(parse_span, field="delay"),
    "expires_in": partial(_positive_span, field="expires_in"),
    "idempotency_key": partial(checked_name, field="idempotency_key"),
    "unique_key": partial(checked_name, field="unique_key"),
    "limit_key": partial(checked_name, field="limit_key"),
    "job_id": _id,
    "on_success": partial(_follow_up, field="on_success"),
    "on_failure": partial(_follow_up, field="on_failure"),
}
_NOTHING: frozenset[str] = frozenset()
_OF_TYPE = frozenset({"queue", "priority", "max_retries", "max_kills", "timeout"})


def _is_unprintable(character: str) -> bool:
    return character < " " or "\x7f" <= character <= "\x9f" or "\ud800" <= character <= "\udfff"


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON number")


def _refuse_unstorable(value: Any) -> None:
    """Escaped half characters (\\ud800) are legal JSON and no text; deep nesting is legal and unreadable elsewhere."""
    level, depth = [value], 0
    while level:
        depth += 1
        if depth > MAX_DEPTH:
            raise InvalidJob(f"payload is nested deeper than {MAX_DEPTH} levels")
        level = [inner for outer in level for inner in _inside(outer)]


def _inside(value: Any) -> list[Any]:
    if isinstance(value, str):
        _size(value)
        return []
    if isinstance(value, dict):
        return [*value.keys(), *value.values()]
    return value if isinstance(value, list) else []


def _size(text: str) -> int:
    """In UTF-8 bytes; InvalidJob for what has none."""
    try:
        return len(text.encode("utf-8"))
    except UnicodeEncodeError:
        raise InvalidJob("payload has a lone surrogate (half a character), which is not text") from None
