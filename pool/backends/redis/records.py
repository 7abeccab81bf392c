"""What comes back: records and answers, as scripts/parts/records.lua lays them out."""

import contextlib
from collections.abc import Iterator
from typing import Any

from pool.backends.redis.frames import (
    UNREADABLE,
    Frames,
    id_text,
    number_in,
    read_frames,
    shown_in,
    text_in,
)
from pool.backends.redis.layouts import (
    ALONE,
    ATTEMPT,
    BODY,
    CANCEL,
    FIRST_CLAIM,
    FIRST_CLAIM_AND_BODY,
    HAS_EXTRAS,
    HAS_TIMES,
    HEAD,
    HEAD_AND_BODY,
    IS_LOCAL,
    LIMIT,
    OUTCOMES,
    PLAIN,
    RUNNING,
    SHORT,
    SIZE,
    STATE,
    TIMES,
    WAITING,
)
from pool.clock import boottime_now
from pool.jobs.job import LOCAL_OWNER, Attempt, Cause, Claim, Job, Outcome, Receipt
from pool.jobs.lifecycle import Reason, Status

_head_and_body, _HEAD_AND_BODY_BYTES = HEAD_AND_BODY.unpack_from, HEAD_AND_BODY.size
_first_claim, _FIRST_CLAIM_BYTES = FIRST_CLAIM_AND_BODY.unpack_from, FIRST_CLAIM_AND_BODY.size
_REASONS = frozenset(Reason)
STATUS_LETTERS = {b"p": Status.PENDING, b"s": Status.SCHEDULED}


def record_parts(raw: bytes) -> tuple[Any, ...]:
    """created, run_at, expires_at, priority, max_retries, max_kills, type, queue, owner, extras, payload."""
    flags, created, _, priority, max_retries, max_kills, type_n, queue_n, owner_n = _head_and_body(raw)
    at, run_at, expires_at, extras_n = _HEAD_AND_BODY_BYTES, 0.0, 0.0, 0
    if flags & HAS_TIMES:
        run_at, expires_at = TIMES.unpack_from(raw, HEAD.size)
        priority, max_retries, max_kills, type_n, queue_n, owner_n = BODY.unpack_from(raw, HEAD.size + TIMES.size)
        at += TIMES.size
    if flags & HAS_EXTRAS:
        (extras_n,) = SIZE.unpack_from(raw, at)
        at += SIZE.size
    kind = raw[at : at + type_n].decode()
    at += type_n
    queue = raw[at : at + queue_n].decode()
    at += queue_n
    owner = LOCAL_OWNER
    if owner_n != IS_LOCAL:
        owner = raw[at : at + owner_n].decode()
        at += owner_n
    extras = read_frames(raw[at : at + extras_n]) if extras_n else {}
    payload = raw[at + extras_n :].decode()
    return created, run_at, expires_at, priority, max_retries, max_kills, kind, queue, owner, extras, payload


def read_claim(packed: bytes, raw: bytes, kept: bytes) -> Claim:
    """A claim from the job's record and its new state."""
    _, flags, number, retries, kills, _, misfits, _, claimed, _, _, _, lane_n = STATE.unpack_from(kept)
    at = STATE.size + lane_n
    at += SHORT.size + SHORT.unpack_from(kept, at)[0]
    claim = _claim(packed, number, raw, claimed)
    claim.attempt, claim.retry_count, claim.kill_count, claim.misfits = retries + 1, retries, kills, misfits
    claim.checkpoint = text_in(read_frames(kept[at:]), b"c") if at < len(kept) else None
    claim.runs_alone = bool(flags & ALONE)
    return claim


def read_first_claim(packed: bytes, raw: bytes, claimed_at: float) -> Claim:
    """The first claim of a job, by the server's time: it has no state to read yet."""
    return _claim(packed, 1, raw, claimed_at)


def read_answer(answer: bytes) -> tuple[bytes, Claim]:
    """The packed id and the first claim of a job, as a settle-and-claim mostly answers. What `read_first_claim` does, in one
    piece for the plainest record: it is gone through for each job."""
    _, claimed_at, packed, flags, created, _, priority, max_retries, _, type_n, queue_n, owner_n = _first_claim(answer)
    if flags or owner_n != IS_LOCAL:
        return packed, _claim(packed, 1, answer[FIRST_CLAIM.size :], claimed_at)
    queue_at = _FIRST_CLAIM_BYTES + type_n
    payload_at = queue_at + queue_n
    kind, queue = answer[_FIRST_CLAIM_BYTES:queue_at].decode(), answer[queue_at:payload_at].decode()
    payload = answer[payload_at:].decode()
    return packed, Claim(
        id_text(packed), 1, kind, queue, payload, priority, 1, max_retries, created, claimed_at, boottime_now()
    )


def _claim(packed: bytes, number: int, raw: bytes, claimed_at: float) -> Claim:
    """What is the same in each claim of a job; the rest as in its first."""
    created, _, _, priority, max_retries, _, kind, queue, owner, extras, payload = record_parts(raw)
    claim = Claim(
        id_text(packed), number, kind, queue, payload, priority, 1, max_retries, created, claimed_at, boottime_now()
    )
    claim.owner = owner
    if extras:
        claim.timeout = number_in(extras, b"T") or 0.0
    return claim


class StateRead:
    """The changing half of a job, unpacked."""

    def __init__(self, raw: bytes) -> None:
        if len(raw) < STATE.size:  # none, or one that is broken
            raw = b""
        fields = STATE.unpack_from(raw) if raw else (WAITING, 0, 0, 0, 0, 0, 0, 0.0, 0.0, 0.0, 0.0, 0.0, 0)
        (self.status, self.flags, self.claim, self.retries, self.kills, self.losses, self.misfits, self.due, self.claimed,
         self.started, self.finished, self.updated, lane_n) = fields  # fmt: skip
        at = STATE.size
        self.lane = raw[at : at + lane_n].decode(errors="replace")
        self.queue, self.frames = "", Frames()
        if len(raw) >= at + lane_n + SHORT.size:
            (queue_n,) = SHORT.unpack_from(raw, at + lane_n)
            at += lane_n + SHORT.size
            self.queue = raw[at : at + queue_n].decode(errors="replace")
            self.frames = read_frames(raw[at + queue_n :])

    @property
    def is_running(self) -> bool:
        return bool(self.status == RUNNING)


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
        parts = record_parts(raw)
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
        "limit_key": extras[b"L"][LIMIT.size :].decode(errors="replace") if b"L" in extras else None,
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
        "cancel_requested": bool(s.flags & CANCEL),
        "reason": Reason(why) if why in _REASONS else None,
        "error": shown_in(s.frames, b"e"),
        "exception": shown_in(s.frames, b"x"),
        "result": text_in(s.frames, b"r"),
        "progress": number_in(s.frames, b"p"),
        "progress_note": text_in(s.frames, b"n"),
    }


def _attempts(past: bytes, s: StateRead) -> Iterator[Attempt]:
    is_plain = bool(s.flags & PLAIN)
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
            (size,) = SIZE.unpack_from(past, at)
            at += SIZE.size + size
            found.append(_attempt(past[at - size : at]))
    return found


def _attempt(body: bytes) -> Attempt:
    number, started, ended, letter = ATTEMPT.unpack_from(body)
    frames = read_frames(body[ATTEMPT.size :])
    return Attempt(
        number=number,
        worker=text_in(frames, b"l") or "",
        started_at=started or None,
        ended_at=ended,
        outcome=OUTCOMES[chr(letter)],
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
