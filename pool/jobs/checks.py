"""What a caller asks for, checked and made into a `NewJob`. Every refusal is a sentence that names the field."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pool.errors import InvalidJob, PayloadTooLarge
from pool.jobs.ids import is_job_id, new_job_id
from pool.jobs.job import LOCAL_OWNER, NewJob
from pool.jobs.priority import parse_priority
from pool.jobs.times import Span, When, parse_span, parse_time

MAX_NAME = 200
MAX_PAYLOAD = 65_536
MAX_RETRIES = 100
MAX_KILLS = 100
MAX_DEPTH = 128  # every JSON reader on the way can follow


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What a caller may say of one job; None = as its type says."""

    queue: str | None = None
    priority: str | int | None = None
    max_retries: int | None = None
    max_kills: int | None = None
    timeout: Span | None = None
    run_at: When | None = None
    delay: Span | None = None
    expires_in: Span | None = None
    idempotency_key: str | None = None
    unique_key: str | None = None
    job_id: str | None = None
    on_success: NewJob | None = None
    on_failure: NewJob | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What the job's type says, complete."""

    queue: str = "default"
    priority: int = 10
    max_retries: int = 3
    max_kills: int = 3
    timeout: float = 0.0


def new_job(
    type_name: str,
    payload: str,
    terms: Terms,
    options: Options,
    *,
    owner: str = LOCAL_OWNER,
    parent_id: str | None = None,
    max_payload: int = MAX_PAYLOAD,
) -> NewJob:
    """The job as it will be stored; InvalidJob names the field that is out of range or form.

    `payload` is JSON text that already fits the type, where the type is known.
    """
    run_at, delay = _due(options)
    return NewJob(
        id=_id(options.job_id),
        type=checked_name(type_name, "type"),
        payload=checked_payload(payload, max_payload),
        queue=checked_queue(_either(options.queue, terms.queue)),
        priority=parse_priority(_either(options.priority, terms.priority)),
        max_retries=_whole(_either(options.max_retries, terms.max_retries), "max_retries", 0, MAX_RETRIES),
        max_kills=_whole(_either(options.max_kills, terms.max_kills), "max_kills", 1, MAX_KILLS),
        timeout=parse_span(_either(options.timeout, terms.timeout), "timeout"),
        run_at=run_at,
        delay=delay,
        expires_in=None if options.expires_in is None else _positive_span(options.expires_in, "expires_in"),
        idempotency_key=_optional_name(options.idempotency_key, "idempotency_key"),
        unique_key=_optional_name(options.unique_key, "unique_key"),
        owner=owner,
        parent_id=parent_id,
        on_success=options.on_success,
        on_failure=options.on_failure,
    )


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


def checked_payload(text: str, max_payload: int = MAX_PAYLOAD) -> str:
    """JSON text of an object, storable, not longer than the limit in UTF-8 bytes and not nested out of reach."""
    try:
        size = len(text.encode("utf-8"))
    except UnicodeEncodeError:
        raise InvalidJob("payload has a lone surrogate (half a character), which is not text") from None
    if size > max_payload:
        raise PayloadTooLarge(size, max_payload)
    try:
        value = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise InvalidJob(f"payload is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise InvalidJob("payload must be a JSON object with the job's arguments by name")
    _refuse_unstorable(value)
    return text


def checked_name(value: object, field: str) -> str:
    """A type's, queue's or key's name: text of 1 to 200 characters, none of them a control or a lone surrogate."""
    if not isinstance(value, str):
        raise InvalidJob(f"{field} is a {type(value).__name__}, it must be text")
    if not 1 <= len(value) <= MAX_NAME:
        raise InvalidJob(f"{field} has {len(value):,} characters, it must have 1 to {MAX_NAME}")
    if any(_is_unprintable(character) for character in value):
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


def _due(options: Options) -> tuple[float | None, float]:
    if options.run_at is not None and options.delay is not None:
        raise InvalidJob("run_at and delay are both given; give one of the two")
    if options.run_at is not None:
        return parse_time(options.run_at, "run_at"), 0.0
    return None, 0.0 if options.delay is None else parse_span(options.delay, "delay")


def _id(given: str | None) -> str:
    if given is None:
        return new_job_id()
    if not (isinstance(given, str) and is_job_id(given)):
        raise InvalidJob(f"job_id {given!r} is not a UUIDv7 in lower case; leave it out to have one made")
    return given


def _whole(value: object, field: str, lowest: int, highest: int) -> int:
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


def _optional_name(value: object, field: str) -> str | None:
    return None if value is None else checked_name(value, field)


def _either(asked: Any, otherwise: Any) -> Any:
    return otherwise if asked is None else asked


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
        if any("\ud800" <= character <= "\udfff" for character in value):
            raise InvalidJob("payload has a lone surrogate (half a character), which is not text")
        return []
    if isinstance(value, dict):
        return [*value.keys(), *value.values()]
    return value if isinstance(value, list) else []
