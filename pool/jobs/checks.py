"""What a caller asks for, checked and made into a `NewJob`. Every refusal is a sentence that names the field."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What the job's type says, complete."""

    queue: str = "default"
    priority: int = 10
    max_retries: int = 3
    max_kills: int = 3
    timeout: float = 0.0
    limit: str = ""
    max_running: int = 0


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
    refuse_unknown(options, Options)
    run_at, delay = _due(options)
    expires_in, max_retries = options.get("expires_in"), _either(options.get("max_retries"), terms.max_retries)
    return NewJob(
        id=_id(options.get("job_id")),
        type=checked_name(type_name, "type"),
        payload=checked_payload(payload, max_payload),
        queue=checked_queue(_either(options.get("queue"), terms.queue)),
        priority=parse_priority(_either(options.get("priority"), terms.priority)),
        max_retries=whole_number(max_retries, "max_retries", 0, MAX_RETRIES),
        max_kills=whole_number(_either(options.get("max_kills"), terms.max_kills), "max_kills", 1, MAX_KILLS),
        timeout=parse_span(_either(options.get("timeout"), terms.timeout), "timeout"),
        run_at=run_at,
        delay=delay,
        expires_in=None if expires_in is None else _positive_span(expires_in, "expires_in"),
        idempotency_key=_optional_name(options.get("idempotency_key"), "idempotency_key"),
        unique_key=_optional_name(options.get("unique_key"), "unique_key"),
        owner=owner,
        parent_id=parent_id,
        **_limit(type_name, terms, options),
        on_success=_follow_up(options.get("on_success"), "on_success"),
        on_failure=_follow_up(options.get("on_failure"), "on_failure"),
    )


def _limit(type_name: str, terms: Terms, options: Options) -> dict[str, Any]:
    """The limit that its type sets, under the key that was given, else under the type's name."""
    key = _optional_name(options.get("limit_key"), "limit_key")
    if not terms.limit and not terms.max_running:
        return {}
    rate = parse_rate(terms.limit)
    running = whole_number(terms.max_running, "max_running", 0, MAX_COUNT)
    return {
        "limit_key": key or type_name,
        "limit_count": rate.count,
        "limit_per_s": rate.per_s,
        "limit_running": running,
    }


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
    _refuse_half_characters(text)
    size = len(text.encode("utf-8"))
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


def refuse_unknown(said: Mapping[str, Any], known: type) -> None:
    """InvalidJob for a word that is no key of `known`, a TypedDict."""
    for name in said.keys() - known.__annotations__.keys():
        near = get_close_matches(name, known.__annotations__, n=1)
        raise InvalidJob(f"unknown field {name!r}{f'; did you mean {near[0]!r}?' if near else ''}")


def _due(options: Options) -> tuple[float | None, float]:
    run_at, delay = options.get("run_at"), options.get("delay")
    if run_at is not None and delay is not None:
        raise InvalidJob("run_at and delay are both given; give one of the two")
    if run_at is not None:
        return parse_time(run_at, "run_at"), 0.0
    return None, 0.0 if delay is None else parse_span(delay, "delay")


def _id(given: str | None) -> str:
    if given is None:
        return new_job_id()
    if not (isinstance(given, str) and is_job_id(given)):
        raise InvalidJob(f"job_id {given!r} is not a UUIDv7 in lower case; leave it out to have one made")
    return given


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


def _follow_up(value: object, field: str) -> NewJob | None:
    if value is None or isinstance(value, NewJob):
        return value
    raise InvalidJob(f"{field} is a {type(value).__name__}; make the follow-up with job.draft(…)")


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
        _refuse_half_characters(value)
        return []
    if isinstance(value, dict):
        return [*value.keys(), *value.values()]
    return value if isinstance(value, list) else []


def _refuse_half_characters(text: str) -> None:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise InvalidJob("payload has a lone surrogate (half a character), which is not text") from None
