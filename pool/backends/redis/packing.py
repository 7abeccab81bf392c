"""What goes into a record, as scripts/parts/records.lua lays it out."""

import struct
from dataclasses import replace
from functools import lru_cache
from hashlib import blake2b
from math import isfinite
from operator import attrgetter

from pool.backends.redis.connection import pack_words
from pool.backends.redis.frames import (
    frame,
    packed_id,
    text_bytes,
)
from pool.backends.redis.layouts import BODY, DOUBLE, IS_LOCAL, LIMIT, SIZE
from pool.errors import InvalidJob
from pool.jobs.job import LOCAL_OWNER, Cause, NewJob, Outcome, Settlement


def job_arguments(job: NewJob) -> tuple[bytes | str, ...]:
    """Id, queue, priority, body and extras, as parts/intake.lua takes them."""
    job_id = _raw_id(job)
    _check_numbers(job)
    extras = _extras(job)
    return job_id, text_bytes(job.queue, "the queue's name"), str(job.priority), _body(job, extras), extras


def plain_words(job: NewJob) -> bytes | None:
    """The same for a job without extras, without the last, packed for the wire; None for a job that needs a closer look."""
    if _reasons_for_extras(job) != _NO_REASONS:
        return None
    try:
        words, head = _same_for_many(*_what_many_share(job))
    except InvalidJob:
        return None
    payload = text_bytes(job.payload, "the payload")
    return b"$16\r\n%b\r\n%b$%d\r\n%b%b\r\n" % (_raw_id(job), words, len(head) + len(payload), head, payload)


_reasons_for_extras = attrgetter(
    "run_at", "delay", "expires_in", "timeout", "limit_key", "batch_id", "unique_key", "idempotency_key", "parent_id",
    "on_success", "on_failure",
)  # fmt: skip
_NO_REASONS = (None, 0.0, None, 0.0, *(None,) * 7)
_what_many_share = attrgetter("type", "queue", "priority", "max_retries", "max_kills", "owner")


@lru_cache(maxsize=1000, typed=True)
def _same_for_many(
    kind: str, queue: str, priority: int, max_retries: int, max_kills: int, owner: str
) -> tuple[bytes, bytes]:
    """Of jobs without extras: queue and priority as packed words, and the body without the payload."""
    job = NewJob(
        id="", type=kind, payload="", queue=queue, priority=priority, max_retries=max_retries, max_kills=max_kills,
        owner=owner,
    )  # fmt: skip
    _check_numbers(job)
    return pack_words((text_bytes(queue, "the queue's name"), priority)), _body(job, b"")


def _raw_id(job: NewJob) -> bytes:
    try:
        return packed_id(job.id)
    except ValueError as problem:
        raise InvalidJob(f"job id {job.id!r} is not a UUID in its usual form") from problem


def _check_numbers(job: NewJob) -> None:
    for name, value in (("run_at", job.run_at), ("delay", job.delay), ("expires_in", job.expires_in)):
        if value is not None and not isfinite(value):
            raise InvalidJob(f"{name} of job {job.id} is {value}: it must be a number of seconds")
    if not isfinite(job.timeout) or not isinstance(job.priority, int) or not 0 <= job.priority <= 100:
        raise InvalidJob(f"timeout or priority of job {job.id} is out of its range")


def _body(job: NewJob, extras: bytes) -> bytes:
    kind, queue = text_bytes(job.type, "the job type"), text_bytes(job.queue, "the queue's name")
    is_local = job.owner == LOCAL_OWNER
    owner = b"" if is_local else text_bytes(job.owner, "the owner")
    lengths = len(kind), len(queue), IS_LOCAL if is_local else len(owner)
    if b"\x1f" in queue or not queue:
        raise InvalidJob(f"queue name {job.queue!r} is empty or holds the control sign U+001F")
    try:
        head = BODY.pack(job.priority, job.max_retries, job.max_kills, *lengths)
    except struct.error as problem:
        raise InvalidJob(f"a number or a name of job {job.id} is out of its range") from problem
    size = SIZE.pack(len(extras)) if extras else b""
    return b"".join((head, size, kind, queue, owner, extras, text_bytes(job.payload, "the payload")))


def _extras(job: NewJob) -> bytes:
    parts: list[bytes] = []
    if job.run_at is not None:
        parts.append(frame(b"A", DOUBLE.pack(job.run_at)))
    elif job.delay > 0:
        parts.append(frame(b"D", DOUBLE.pack(job.delay)))
    if job.expires_in is not None:
        parts.append(frame(b"E", DOUBLE.pack(job.expires_in)))
    if job.timeout:
        parts.append(frame(b"T", DOUBLE.pack(job.timeout)))
    if job.limit_key is not None:
        numbers = LIMIT.pack(job.limit_count, job.limit_per_s, job.limit_running)
        parts.append(frame(b"L", numbers + text_bytes(job.limit_key, "the limit's key")))
    if job.batch_id is not None:
        parts.append(frame(b"B", batch_bytes(job.batch_id)))
    if job.unique_key is not None:
        parts.append(frame(b"U", text_bytes(job.unique_key, "the unique key")))
    if job.idempotency_key is not None:
        parts += _idempotency(job, job.idempotency_key)
    if job.parent_id is not None:
        parts.append(frame(b"P", text_bytes(job.parent_id, "the parent's id")))
    for tag, follow_up in ((b"S", job.on_success), (b"F", job.on_failure)):
        if follow_up is not None:
            parts.append(frame(tag, _packed_job(follow_up, job)))
    return b"".join(parts)


def batch_bytes(batch_id: str) -> bytes:
    """The packed id of a batch, or InvalidJob."""
    try:
        return packed_id(batch_id)
    except ValueError as problem:
        raise InvalidJob(f"batch id {batch_id!r} is not a UUID; leave it out to have one made") from problem


def callback_argument(job: NewJob | None) -> bytes:
    """A job that is enqueued later, as parts/intake.lua unpacks it; empty for none."""
    return b"" if job is None else _packed(job)


def _idempotency(job: NewJob, key: str) -> list[bytes]:
    digest = blake2b(f"{job.type}\0{job.payload}".encode(errors="surrogatepass"), digest_size=16).digest()
    owner = text_bytes(job.owner, "the owner")
    scope = frame(b"O", SIZE.pack(len(owner)) + owner)  # a length before it: owner and key are not run together
    return [frame(b"I", text_bytes(key, "the idempotency key")), scope, frame(b"G", digest)]


def _packed_job(job: NewJob, parent: NewJob) -> bytes:
    return _packed(replace(job, parent_id=job.parent_id or parent.id))


def _packed(job: NewJob) -> bytes:
    parts = job_arguments(job)
    raw = [part.encode() if isinstance(part, str) else part for part in parts]
    return b"".join(SIZE.pack(len(part)) + part for part in raw)


def cause_frames(cause: Cause | None) -> bytes:
    """An attempt's cause; the parts that are not there take no room."""
    if cause is None:
        return b""
    texts = ((b"r", cause.reason), (b"x", cause.exception), (b"t", cause.text), (b"s", cause.stack))
    numbers = ((b"g", cause.signal), (b"k", cause.exit_code))
    said = [frame(tag, text_bytes(str(value), "the cause")) for tag, value in texts if value is not None]
    return b"".join([frame(b"y", b""), *said, *(frame(tag, b"%d" % n) for tag, n in numbers if n is not None)])


def output_frame(output: str) -> bytes:
    return frame(b"o", text_bytes(output, "the output")) if output else b""


def error_frames(cause: Cause | None) -> bytes:
    """What the job itself shows of its last cause; an empty frame clears what stood there, "+" goes before a text."""
    if cause is None:
        return b""
    shown = ((b"e", cause.text), (b"x", cause.exception))
    return b"".join(frame(tag, b"" if text is None else b"+" + text_bytes(text, "the cause")) for tag, text in shown)


def settlement_frames(word: Settlement) -> bytes:
    """Result and error of the job, as its state keeps them."""
    if word.outcome is Outcome.COMPLETED:
        return result_frame(word.result)
    return result_frame(word.result) + error_frames(word.cause)


def result_frame(result: str | None) -> bytes:
    return b"" if result is None else frame(b"r", text_bytes(result, "the result"))


def report_frames(progress: float | None, note: str | None, checkpoint: str | None) -> bytes:
    parts = [frame(b"p", DOUBLE.pack(progress))] if progress is not None else []
    parts += [frame(b"n", text_bytes(note, "the note"))] if note is not None else []
    parts += [frame(b"c", text_bytes(checkpoint, "the checkpoint"))] if checkpoint is not None else []
    return b"".join(parts)
