"""Between rows and the things of `jobs.job`. Reading for people is tolerant; reading for a claim raises ValueError."""

import hashlib
import json
import math
from dataclasses import asdict
from operator import attrgetter
from typing import Any

from pool.backends.sqlite.transaction import HELD
from pool.errors import InvalidJob
from pool.jobs.job import KEPT_ATTEMPTS, LOCAL_OWNER, Attempt, Cause, NewJob, Outcome, Settlement
from pool.jobs.lifecycle import Reason, Status

_RESTS = (Status.SCHEDULED, Status.PENDING, Status.RUNNING, Status.COMPLETED, Status.FAILED, Status.CANCELLED)
STATUS_NUMBER = {status: number for number, status in enumerate(_RESTS)}
STATUSES = {HELD: Status.PENDING, **dict(enumerate(_RESTS))}
FLAG_CANCEL, FLAG_ALONE = 1, 2
MICROSECONDS = 1_000_000


# ---------------------------------------------------------------- ids and texts


def id_bytes(job_id: str) -> bytes:
    """16 bytes; ValueError for anything that is not the text of a UUID in its usual form."""
    raw = bytes.fromhex(job_id.replace("-", ""))
    if len(raw) != 16 or len(job_id) != 36:
        raise ValueError(f"not a job id: {job_id!r}")
    return raw


def is_uuid(text: str) -> bool:
    """Whether this can be the id of a stored job."""
    try:
        return bool(id_bytes(text))
    except ValueError:
        return False


def id_text(raw: Any) -> str:
    """The text of a stored id; ValueError for a broken one."""
    if not isinstance(raw, bytes) or len(raw) != 16:
        raise ValueError(f"broken job id {raw!r}")
    text = raw.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def id_for_people(raw: Any) -> str:
    try:
        return id_text(raw)
    except ValueError:
        return raw.hex() if isinstance(raw, bytes) else str(raw)


def storable(text: str | None) -> str | bytes | None:
    """A text from inside a job. One that is not UTF-8 (lone surrogates) is kept exactly too, as bytes."""
    if text is None or text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")
    return text


def readable(stored: Any) -> str | None:
    """The reverse of `storable`; ValueError when the bytes are no text."""
    return stored.decode("utf-8", "surrogatepass") if isinstance(stored, bytes) else stored


def digest_of(job: NewJob) -> bytes:
    """What an idempotency key remembers of the job it was first used for."""
    return hashlib.blake2b(f"{job.type}\0{job.payload}".encode(), digest_size=16).digest()


# ---------------------------------------------------------------- jobs on their way in


def follow_ups_of(job: NewJob) -> str | None:
    """NULL only for a job whose claim and end concern no other: no follow-ups, no limit, no batch."""
    if job.on_success is None and job.on_failure is None and job.limit_key is None and job.batch_id is None:
        return None
    pair = [after and asdict(after) for after in (job.on_success, job.on_failure)]
    return json.dumps(pair)


def packed_job(job: NewJob | None) -> str | None:
    """A job to be enqueued later."""
    return None if job is None else json.dumps(asdict(job))


def unpacked_job(text: str | None) -> NewJob | None:
    """ValueError or TypeError when the stored text is broken."""
    return None if text is None else _as_new_job(json.loads(text))


def read_follow_ups(text: str | None) -> tuple[NewJob | None, NewJob | None]:
    """ValueError (or TypeError) when the stored text is broken."""
    if not text:
        return None, None
    on_success, on_failure = json.loads(text)
    return _as_new_job(on_success), _as_new_job(on_failure)


def _as_new_job(fields: dict[str, Any] | None) -> NewJob | None:
    if fields is None:
        return None
    if not isinstance(fields, dict):
        raise ValueError("not a job")
    nested = {key: _as_new_job(fields.get(key)) for key in ("on_success", "on_failure")}
    return NewJob(**{**fields, **nested})


def check_storable(job: NewJob) -> None:
    """What SQLite would store as something else, or not at all."""
    if not is_plain(job):
        _find_fault(job)


def is_plain(job: NewJob) -> bool:
    """A quick look that most jobs stand: it asks for nothing beyond the usual, and can be stored as it is."""
    if _options(job) != _NO_OPTIONS:
        return False
    job_id, kind, queue, payload, priority, max_retries, max_kills, timeout = _values(job)
    are_texts = type(job_id) is type(kind) is type(queue) is type(payload) is str
    are_numbers = type(priority) is type(max_retries) is type(max_kills) is int and type(timeout) is float
    if not (are_texts and are_numbers):
        return False
    is_ascii = job_id.isascii() and kind.isascii() and queue.isascii() and payload.isascii()
    fits = 0 <= priority < _MANY and 0 <= max_retries < _MANY and 0 <= max_kills < _MANY and 0.0 <= timeout < 1e12
    return bool(is_ascii and fits)


_values = attrgetter("id", "type", "queue", "payload", "priority", "max_retries", "max_kills", "timeout")
_MANY = 2**31
_OPTIONS: dict[str, Any] = {
    "run_at": None, "delay": 0.0, "expires_in": None, "idempotency_key": None, "unique_key": None, "owner": LOCAL_OWNER,
    "parent_id": None, "batch_id": None, "limit_key": None, "limit_per_s": 0.0, "on_success": None, "on_failure": None,
}  # fmt: skip
_options, _NO_OPTIONS = attrgetter(*_OPTIONS), tuple(_OPTIONS.values())


def _find_fault(job: NewJob) -> None:
    for name in ("priority", "max_retries", "max_kills"):
        number = getattr(job, name)
        if not isinstance(number, int) or not -(2**63) <= number < 2**63:
            raise InvalidJob(f"{name} must be an integer, not {number!r}")
    for name in ("timeout", "delay", "run_at", "expires_in", "limit_per_s"):
        span = getattr(job, name)
        if span is not None and not (isinstance(span, int | float) and math.isfinite(span)):
            raise InvalidJob(f"{name} must be a finite number of seconds, not {span!r}")
    for name in ("id", "type", "payload", "queue", "owner", *_OPTIONAL_TEXTS):
        _check_text(name, getattr(job, name))


_OPTIONAL_TEXTS = ("idempotency_key", "unique_key", "parent_id", "limit_key", "batch_id")


def _check_text(name: str, text: Any) -> None:
    if text is None and name in _OPTIONAL_TEXTS:
        return
    if not isinstance(text, str):
        raise InvalidJob(f"{name} must be text, not {type(text).__name__}")
    if text.isascii():
        return
    try:
        text.encode()
    except UnicodeEncodeError as problem:
        raise InvalidJob(f"{name} has a lone surrogate at {problem.start}, which is not text") from problem


# ---------------------------------------------------------------- attempts


def attempt_line(
    number: int,
    worker: str,
    started_at: float | None,
    ended_at: float,
    outcome: Outcome,
    cause: Cause | None,
    output: str,
) -> list[Any]:
    return [number, worker, started_at, ended_at, outcome.value, _cause_line(cause), output]


def _cause_line(cause: Cause | None) -> list[Any] | None:
    if cause is None:
        return None
    reason = cause.reason and cause.reason.value
    return [reason, cause.exception, cause.text, cause.stack, cause.signal, cause.exit_code]


_as_json = json.JSONEncoder(check_circular=False, separators=(",", ":")).encode


def only_attempt(worker: str, word: Settlement, ended_at: float) -> str:
    """The history of a job that completes at its first attempt; the times are in its row."""
    if not word.output and word.cause is None:
        return _ONLY + worker
    line = attempt_line(1, worker, word.started_at, ended_at, word.outcome, word.cause, word.output)
    return add_attempt(None, line)


_ONLY = "="


def add_attempt(history: str | None, line: list[Any]) -> str:
    """The history with one more attempt; of more than ten the oldest goes. A broken history begins anew."""
    if not history:
        return _as_json([line])
    try:
        lines = list(json.loads(history))
    except (ValueError, TypeError):
        lines = []
    return _as_json([*lines, line][-KEPT_ATTEMPTS:])


def read_attempts(history: str | None, started_at: float | None, finished_at: float | None) -> tuple[Attempt, ...]:
    """ValueError, TypeError when the stored text is broken."""
    if not history:
        return ()
    if not isinstance(history, str):
        raise TypeError("its history is not text")
    if history.startswith(_ONLY) and finished_at is not None:
        return (_as_attempt(1, history[len(_ONLY) :], started_at, finished_at, Outcome.COMPLETED.value, None, ""),)
    return tuple(_as_attempt(*line) for line in json.loads(history))


def _as_attempt(number: int, worker: str, started: Any, ended: Any, outcome: str, cause: Any, output: str) -> Attempt:
    return Attempt(
        number=number,
        worker=worker,
        started_at=started,
        ended_at=ended,
        outcome=Outcome(outcome),
        cause=cause and _as_cause(*cause),
        output=output,
    )


def _as_cause(reason: str | None, exception: Any, text: Any, stack: Any, signal: Any, exit_code: Any) -> Cause:
    kind = Reason(reason) if reason else None
    return Cause(reason=kind, exception=exception, text=text, stack=stack, signal=signal, exit_code=exit_code)
