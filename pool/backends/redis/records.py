"""Records and answers, as scripts/parts/records.lua lays them out: packing what goes in, reading what comes back."""

import contextlib
import struct
from collections.abc import Iterator
from dataclasses import replace
from hashlib import blake2b
from math import isfinite
from typing import Any

from pool.backends.redis.frames import (
    UNREADABLE,
    Frames,
    frame,
    id_text,
    number_in,
    packed_id,
    read_frames,
    shown_in,
    text_bytes,
    text_in,
)
from pool.clock import boottime_now
from pool.errors import InvalidJob
from pool.jobs.job import LOCAL_OWNER, Attempt, Cause, Claim, Job, NewJob, Outcome, Receipt, Settlement
from pool.jobs.lifecycle import Reason, Status

_HEAD = struct.Struct(">Bdd")
_TIMES = struct.Struct(">dd")
_BODY = struct.Struct(">BHHHHH")
_STATE = struct.Struct(">BBIHHHHdddddH")
_LIMIT = struct.Struct(">ddd")
_ATTEMPT = struct.Struct(">HddB")
_SIZE, _SHORT, _DOUBLE = struct.Struct(">I"), struct.Struct(">H"), struct.Struct(">d")
_HAS_TIMES, _HAS_EXTRAS = 1, 2
_CANCEL, _ALONE, _PLAIN = 1, 2, 8
_IS_LOCAL = 0xFFFF  # as length of the owner
_WAITING, _RUNNING = ord("w"), ord("r")

_OUTCOMES = {
    "c": Outcome.COMPLETED,
    "f": Outcome.FAILED,
    "r": Outcome.RETRIED,
    "b": Outcome.RETURNED,
    "x": Outcome.CANCELLED,
    "l": Outcome.LOST,
}
_REASONS = frozenset(Reason)
STATUS_LETTERS = {b"p": Status.PENDING, b"s": Status.SCHEDULED}


# ---------------------------------------------------------------- in


def job_arguments(job: NewJob) -> tuple[bytes | str, ...]:
    """Id, queue, priority, body and extras, as parts/intake.lua takes them."""
    try:
        job_id = packed_id(job.id)
    except ValueError as problem:
        raise InvalidJob(f"job id {job.id!r} is not a UUID in its usual form") from problem
    _check_numbers(job)
    extras = _extras(job)
    return job_id, text_bytes(job.queue, "the queue's name"), str(job.priority), _body(job, extras), extras


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
    lengths = len(kind), len(queue), _IS_LOCAL if is_local else len(owner)
    if b"\x1f" in queue or not queue:
        raise InvalidJob(f"queue name {job.queue!r} is empty or holds the control sign U+001F")
    try:
        head = _BODY.pack(job.priority, job.max_retries, job.max_kills, *lengths)
    except struct.error as problem:
        raise InvalidJob(f"a number or a name of job {job.id} is out of its range") from problem
    size = _SIZE.pack(len(extras)) if extras else b""
    return b"".join((head, size, kind, queue, owner, extras, text_bytes(job.payload, "the payload")))


def _extras(job: NewJob) -> bytes:
    parts: list[bytes] = []
    if job.run_at is not None:
        parts.append(frame(b"A", _DOUBLE.pack(job.run_at)))
    elif job.delay > 0:
        parts.append(frame(b"D", _DOUBLE.pack(job.delay)))
    if job.expires_in is not None:
        parts.append(frame(b"E", _DOUBLE.pack(job.expires_in)))
    if job.timeout:
        parts.append(frame(b"T", _DOUBLE.pack(job.timeout)))
    if job.limit_key is not None:
        numbers = _LIMIT.pack(job.limit_count, job.limit_per_s, job.limit_running)
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
    scope = frame(b"O", _SIZE.pack(len(owner)) + owner)  # a length before it: owner and key are not run together
    return [frame(b"I", text_bytes(key, "the idempotency key")), scope, frame(b"G", digest)]


def _packed_job(job: NewJob, parent: NewJob) -> bytes:
    return _packed(replace(job, parent_id=job.parent_id or parent.id))


def _packed(job: NewJob) -> bytes:
    parts = job_arguments(job)
    raw = [part.encode() if isinstance(part, str) else part for part in parts]
    return b"".join(_SIZE.pack(len(part)) + part for part in raw)


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
    parts = [frame(b"p", _DOUBLE.pack(progress))] if progress is not None else []
    parts += [frame(b"n", text_bytes(note, "the note"))] if note is not None else []
    parts += [frame(b"c", text_bytes(checkpoint, "the checkpoint"))] if checkpoint is not None else []
    return b"".join(parts)


# ---------------------------------------------------------------- out


def _record_parts(raw: bytes) -> tuple[Any, ...]:
    """created, run_at, expires_at, priority, max_retries, max_kills, type, queue, owner, extras, payload."""
    flags, created, _ = _HEAD.unpack_from(raw)
    at, run_at, expires_at = _HEAD.size, 0.0, 0.0
    if flags & _HAS_TIMES:
        run_at, expires_at = _TIMES.unpack_from(raw, at)
        at += _TIMES.size
    priority, max_retries, max_kills, type_n, queue_n, owner_n = _BODY.unpack_from(raw, at)
    at += _BODY.size
    extras_n = 0
    if flags & _HAS_EXTRAS:
        (extras_n,) = _SIZE.unpack_from(raw, at)
        at += _SIZE.size
    kind = raw[at : at + type_n].decode()
    at += type_n
    queue = raw[at : at + queue_n].decode()
    at += queue_n
    owner = LOCAL_OWNER
    if owner_n != _IS_LOCAL:
        owner = raw[at : at + owner_n].decode()
        at += owner_n
    extras = read_frames(raw[at : at + extras_n]) if extras_n else {}
    payload = raw[at + extras_n :].decode()
    return created, run_at, expires_at, priority, max_retries, max_kills, kind, queue, owner, extras, payload


def read_claim(packed: bytes, raw: bytes, kept: bytes) -> Claim:
    """A claim from the job's record and its new state."""
    created, _, _, priority, max_retries, _, kind, queue, owner, extras, payload = _record_parts(raw)
    _, flags, claim, retries, kills, _, misfits, _, claimed, _, _, _, lane_n = _STATE.unpack_from(kept)
    at = _STATE.size + lane_n
    at += _SHORT.size + _SHORT.unpack_from(kept, at)[0]
    frames = read_frames(kept[at:]) if at < len(kept) else {}
    return Claim(
        job_id=id_text(packed),
        claim=claim,
        type=kind,
        queue=queue,
        payload=payload,
        priority=priority,
        attempt=retries + 1,
        retry_count=retries,
        max_retries=max_retries,
        kill_count=kills,
        misfits=misfits,
        timeout=number_in(extras, b"T") or 0.0,
        created_at=created,
        claimed_at=claimed,
        claimed_boottime=boottime_now(),
        checkpoint=text_in(frames, b"c"),
        owner=owner,
        runs_alone=bool(flags & _ALONE),
    )


def read_clock(seconds: bytes, microseconds: bytes) -> float:
    """The server's time, as its scripts have it."""
    return float(seconds) + float(microseconds) / 1_000_000


def read_first_claim(packed: bytes, raw: bytes, claimed_at: float) -> Claim:
    """The first claim of a job: it has no state to read yet."""
    created, _, _, priority, max_retries, _, kind, queue, owner, extras, payload = _record_parts(raw)
    return Claim(
        job_id=id_text(packed),
        claim=1,
        type=kind,
        queue=queue,
        payload=payload,
        priority=priority,
        attempt=1,
        retry_count=0,
        max_retries=max_retries,
        kill_count=0,
        misfits=0,
        timeout=number_in(extras, b"T") or 0.0,
        created_at=created,
        claimed_at=claimed_at,
        claimed_boottime=boottime_now(),
        owner=owner,
    )


class StateRead:
    """The changing half of a job, unpacked."""

    def __init__(self, raw: bytes) -> None:
        if len(raw) < _STATE.size:  # none, or one that is broken
            raw = b""
        fields = _STATE.unpack_from(raw) if raw else (_WAITING, 0, 0, 0, 0, 0, 0, 0.0, 0.0, 0.0, 0.0, 0.0, 0)
        (self.status, self.flags, self.claim, self.retries, self.kills, self.losses, self.misfits, self.due, self.claimed,
         self.started, self.finished, self.updated, lane_n) = fields  # fmt: skip
        at = _STATE.size
        self.lane = raw[at : at + lane_n].decode(errors="replace")
        self.queue, self.frames = "", Frames()
        if len(raw) >= at + lane_n + _SHORT.size:
            (queue_n,) = _SHORT.unpack_from(raw, at + lane_n)
            at += lane_n + _SHORT.size
            self.queue = raw[at : at + queue_n].decode(errors="replace")
            self.frames = read_frames(raw[at + queue_n :])

    @property
    def is_running(self) -> bool:
        return bool(self.status == _RUNNING)


def read_job(packed: bytes, status: bytes, raw: bytes, kept: bytes, past: bytes = b"") -> Job:
    """A job as anyone may look at it; a record that cannot be read shows what is known of it."""
    s = StateRead(kept)
    return Job(
        id=id_text(packed),
        status=Status(status.decode()),
        attempts=tuple(_attempts(past, s)),
        **_fixed_fields(raw, s),
        **_changing_fields(s),
    )


def _fixed_fields(raw: bytes, s: StateRead) -> dict[str, Any]:
    try:
        parts = _record_parts(raw)
    except UNREADABLE:
        parts = (s.updated, 0.0, 0.0, 0, 0, 0, "", s.queue, LOCAL_OWNER, {}, raw.decode(errors="replace"))
    created, run_at, expires_at, priority, max_retries, max_kills, kind, queue, owner, extras, payload = parts
    return {
        "type": kind,
        "queue": queue,
        "payload": payload,
        "priority": priority,
        "max_retries": max_retries,
        "max_kills": max_kills,
        "timeout": number_in(extras, b"T") or 0.0,
        "owner": owner,
        "idempotency_key": text_in(extras, b"I"),
        "unique_key": text_in(extras, b"U"),
        "parent_id": text_in(extras, b"P"),
        "limit_key": extras[b"L"][_LIMIT.size :].decode(errors="replace") if b"L" in extras else None,
        "batch_id": id_text(extras[b"B"]) if len(extras.get(b"B", b"")) == 16 else None,
        "run_at": s.due or run_at or created,
        "expires_at": expires_at or None,
        "created_at": created,
        "updated_at": s.updated or created,
    }


def _changing_fields(s: StateRead) -> dict[str, Any]:
    why = text_in(s.frames, b"w")
    return {
        "retry_count": s.retries,
        "kill_count": s.kills,
        "loss_count": s.losses,
        "misfits": s.misfits,
        "claimed_at": s.claimed if s.is_running else None,
        "started_at": s.started or None,
        "finished_at": s.finished or None,
        "worker_id": s.lane if s.is_running else None,
        "claim": s.claim,
        "cancel_requested": bool(s.flags & _CANCEL),
        "reason": Reason(why) if why in _REASONS else None,
        "error": shown_in(s.frames, b"e"),
        "exception": shown_in(s.frames, b"x"),
        "result": text_in(s.frames, b"r"),
        "progress": number_in(s.frames, b"p"),
        "progress_note": text_in(s.frames, b"n"),
    }


def _attempts(past: bytes, s: StateRead) -> Iterator[Attempt]:
    is_plain = bool(s.flags & _PLAIN)
    found = _readable_attempts(past)
    yield from found[-9:] if is_plain else found
    if is_plain:
        yield Attempt(
            number=s.retries + 1,
            worker=s.lane,
            started_at=s.started or None,
            ended_at=s.finished,
            outcome=Outcome.COMPLETED,
        )


def _readable_attempts(past: bytes) -> list[Attempt]:
    """Of a broken history what stands before the break."""
    found: list[Attempt] = []
    at = 0
    with contextlib.suppress(*UNREADABLE):
        while at < len(past):
            (size,) = _SIZE.unpack_from(past, at)
            at += _SIZE.size + size
            found.append(_attempt(past[at - size : at]))
    return found


def _attempt(body: bytes) -> Attempt:
    number, started, ended, letter = _ATTEMPT.unpack_from(body)
    frames = read_frames(body[_ATTEMPT.size :])
    return Attempt(
        number=number,
        worker=text_in(frames, b"l") or "",
        started_at=started or None,
        ended_at=ended,
        outcome=_OUTCOMES[chr(letter)],
        cause=_cause(frames) if b"y" in frames else None,
        output=text_in(frames, b"o") or "",
    )


def _cause(frames: Frames) -> Cause:
    reason, signal, code = text_in(frames, b"r"), frames.get(b"g"), frames.get(b"k")
    return Cause(
        reason=Reason(reason) if reason in _REASONS else None,
        exception=text_in(frames, b"x"),
        text=text_in(frames, b"t"),
        stack=text_in(frames, b"s"),
        signal=int(signal) if signal is not None else None,
        exit_code=int(code) if code is not None else None,
    )


def read_receipt(job_id: str, answer: Any) -> Receipt:
    """One element of enqueue's answer."""
    if isinstance(answer, bytes):
        return Receipt(job_id, STATUS_LETTERS[answer])
    first, status, differs = answer
    return Receipt(id_text(first), Status(status.decode()), replayed=True, payload_differs=bool(differs))
