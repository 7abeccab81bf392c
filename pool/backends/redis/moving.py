"""A Redis store as something that can be moved (backends/moving.py)."""

import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from pool.backends.contract import AuditEntry, Backend
from pool.backends.moving import Books, CarriedBatch, CarriedJob, CarriedKey, Mark, Sign
from pool.backends.redis import layouts, packing, records
from pool.backends.redis.backend import RedisBackend
from pool.backends.redis.connection import Argument
from pool.backends.redis.frames import Frames, frame, id_text, number_in, packed_id, text_bytes, text_in
from pool.backends.redis.watching import Watched, _is_dead_here
from pool.errors import BackendUnavailable, ConfigError
from pool.jobs.job import Attempt, NewJob
from pool.jobs.lifecycle import Status
from pool.jobs.priority import POINTS_PER_AGEING

LINE_AT_ONCE = 2000
MICROSECONDS = 1_000_000
_WAITING, _ALONE, _EXTRAS = ord("w"), 2, 4
_LETTERS = {
    Status.SCHEDULED: "w",
    Status.PENDING: "w",
    Status.COMPLETED: "c",
    Status.FAILED: "f",
    Status.CANCELLED: "x",
}
_STATUS_OF = {"c": Status.COMPLETED, "f": Status.FAILED, "x": Status.CANCELLED}


class RedisMoving:
    """Movable. Works through the backend's own session and keys."""

    def __init__(self, backend: Backend) -> None:
        if not isinstance(backend, RedisBackend):
            raise ConfigError(f"{backend.url} is no Redis store")
        self._backend = backend
        self._session, self._keys = backend._session, backend._keys
        self._moving = self._key("moving")

    # ------------------------------------------------------------ the mark

    def mark(self) -> Mark | None:
        text = self._session.command("HGET", self._moving, "mark")
        return Mark.read(text.decode()) if text else None

    def set_mark(self, mark: Mark | None) -> None:
        self._session.run_long("mark", self._keys.fixed, (mark.as_text() if mark else "",))

    def signs_of_life(self) -> list[Sign]:
        now = self._backend.server_now()
        rows = [Watched.read(row) for row in self._session.run("watch", self._keys.fixed)]
        signs = [Sign(str(row.pool), now - row.beaten_at, row.lease_seconds) for row in rows if _may_live(row)]
        return [sign for sign in signs if sign.age_s <= sign.lease_seconds]

    def count(self) -> tuple[int, int]:
        jobs, keys = self._session.command("HLEN", self._key("jobs")), self._session.command("HLEN", self._key("idem"))
        return int(jobs), int(keys)

    # ------------------------------------------------------------ jobs

    def jobs(self, at_once: int) -> Iterator[list[CarriedJob]]:
        line = [packed for _, packed in sorted(self._line())]
        for start in range(0, len(line), at_once):
            rows = self._session.run_long("move_read", self._keys.fixed, line[start : start + at_once])
            yield [_carried(*row) for row in rows]

    def _line(self) -> Iterator[tuple[float, bytes]]:
        """Every id with its sequence; of a record that cannot be read it is 0."""
        after = b""
        while found := self._session.run_long("move_line", self._keys.fixed, (after, LINE_AT_ONCE)):
            for packed, head in zip(found[::2], found[1::2], strict=True):
                yield (struct.unpack_from(">d", head, 9)[0] if len(head) == 17 else 0.0), packed
            after = found[-2]

    def hold(self, jobs: Sequence[CarriedJob]) -> None:
        args = [word for job in jobs for word in _job_words(job)]
        self._answered(self._session.run_long("move_in", self._keys.fixed, args))
        self._backend._is_on_disk()

    def drop(self, job_ids: Sequence[str]) -> None:
        """The set each stands in is asked for, because a list is searched from one end only."""
        packed = [packed_id(job_id) for job_id in job_ids]
        found = self._session.run_long("move_read", self._keys.fixed, packed)
        args: list[Argument] = [word for row in found for word in (row[0], row[1] + b":")]
        self._answered(self._session.run_long("move_out", self._keys.fixed, args))

    # ------------------------------------------------------------ idempotency

    def keys(self, at_once: int) -> list[CarriedKey]:
        rows = self._session.command("ZRANGE", self._key("idem_at"), 0, at_once - 1, "WITHSCORES")
        names = rows[::2]
        values = self._session.command("HMGET", self._key("idem"), *names) if names else []
        found = zip(names, rows[1::2], values, strict=True)
        return [_carried_key(name, float(at), value) for name, at, value in found if value]

    def hold_keys(self, keys: Sequence[CarriedKey]) -> None:
        """Records of one key come from one store, so the same is put down again or not at all."""
        for key in keys:
            name = _key_name(key)
            letter = _LETTERS[key.final or Status.PENDING].encode()
            self._session.command("HSETNX", self._key("idem"), name, packed_id(key.job_id) + letter + key.digest)
            self._session.command("ZADD", self._key("idem_at"), repr(key.created_at), name)
        self._backend._is_on_disk()

    def drop_keys(self, keys: Sequence[CarriedKey]) -> None:
        names = [_key_name(key) for key in keys]
        self._session.command("HDEL", self._key("idem"), *names)
        self._session.command("ZREM", self._key("idem_at"), *names)

    # ------------------------------------------------------------ books

    def books(self) -> Books:
        stats = self._hash("stats")
        return Books(
            queues={name.decode(): _settings(value) for name, value in self._hash("queues").items()},
            ticks=self._ticks(),
            hours=_hours(stats),
            batches=tuple(self._batches()),
            ageing_s=float(stats.get(b"ageing_s", 0)),
            settings={name.decode(): value.decode() for name, value in self._hash("settings").items()},
            audit=tuple(reversed(self._backend.audit(10**9))),
        )

    def _ticks(self) -> dict[str, tuple[str, float, str | None]]:
        last = self._hash("tick_jobs")
        found = {}
        for name, value in self._hash("ticks").items():
            due, _, version = value.decode().partition(" ")
            found[name.decode()] = version, float(due), id_text(last[name]) if name in last else None
        return found

    def _batches(self) -> Iterator[CarriedBatch]:
        rows = self._session.command("ZRANGE", self._key("batches"), 0, -1, "WITHSCORES")
        for packed, updated_at in zip(rows[::2], rows[1::2], strict=True):
            fields = self._hash(b"batch:" + packed)
            counts: dict[str, Any] = {name: int(fields.get(name.encode(), 0)) for name in _BATCH_COUNTS}
            told: dict[str, Any] = {"created_at": float(fields.get(b"created", 0)), "updated_at": float(updated_at)}
            told |= {"on_complete": _callback(fields.get(b"c")), "on_success": _callback(fields.get(b"s"))}
            yield CarriedBatch(id=id_text(packed), **counts, **told)

    def hold_books(self, books: Books) -> None:
        mark = self.mark()
        if mark is None or mark.has_books:
            return
        done = Mark(role=mark.role, peer=mark.peer, is_over=mark.is_over, has_books=True)
        entries = [(len(words), *words) for words in _entries(books)]
        words = [word for entry in entries for word in entry]
        self._answered(self._session.run_long("move_books", self._keys.fixed, (mark.as_text(), done.as_text(), *words)))
        self._backend._is_on_disk()

    def drop_books(self) -> None:
        batches = self._session.command("ZRANGE", self._key("batches"), 0, -1)
        per_batch = [part + packed for packed in batches for part in (b"batch:", b"members:")]
        plain = (b"ticks", b"tick_jobs", b"batches", b"settings", b"audit", b"queues", b"limits", b"limit_at", b"opens")
        for name in (*plain, *per_batch):
            self._session.command("DEL", self._key(name))
        gone = [name for name in self._hash("stats") if name != b"seq"]
        if gone:
            self._session.command("HDEL", self._key("stats"), *gone)

    # ------------------------------------------------------------ small pieces

    def _key(self, name: str | bytes) -> bytes:
        return self._keys.root.encode() + (name.encode() if isinstance(name, str) else name)

    def _hash(self, name: str | bytes) -> dict[bytes, bytes]:
        flat = self._session.command("HGETALL", self._key(name))
        return dict(zip(flat[::2], flat[1::2], strict=True))

    def _answered(self, answer: int) -> None:
        if answer != 1:
            raise BackendUnavailable(
                self._backend.url, "the mark of this move is no longer there: somebody took it off"
            )


_BATCH_COUNTS = ("total", "completed", "failed", "cancelled", "told")


def _may_live(row: Watched) -> bool:
    return row.beats != "0" and not row.lost and not _is_dead_here(row.mark)


# ---------------------------------------------------------------- out


def _carried(packed: bytes, status: bytes, raw: bytes, kept: bytes, past: bytes, is_late: int) -> CarriedJob:
    job = records.read_job(packed, status, raw, kept, past)
    state = records.StateRead(kept)
    try:
        extras = records.record_parts(raw)[9]
    except (struct.error, UnicodeDecodeError):
        extras = {}
    return CarriedJob(
        job=job,
        checkpoint=text_in(state.frames, b"c"),
        runs_alone=bool(state.flags & _ALONE),
        is_late=bool(is_late),
        limit=_limit(extras),
        follow_ups=(_callback(extras.get(b"S")), _callback(extras.get(b"F"))),
    )


def _limit(extras: Frames) -> tuple[int, float, int]:
    if b"L" not in extras:
        return 0, 0.0, 0
    count, per_s, running = layouts.LIMIT.unpack_from(extras[b"L"])
    return int(count), per_s, int(running)


def _callback(packed: bytes | None) -> NewJob | None:
    """A job that is enqueued later, from the form of parts/intake.lua."""
    if not packed:
        return None
    parts, at = [], 0
    while at < len(packed):
        (size,) = struct.unpack_from(">I", packed, at)
        parts.append(packed[at + 4 : at + 4 + size])
        at += 4 + size
    job_id, _, _, body, raw_extras = parts
    head = layouts.HEAD.pack(layouts.HAS_EXTRAS if raw_extras else 0, 0.0, 0.0)
    _, _, _, priority, max_retries, max_kills, kind, queue, owner, extras, payload = records.record_parts(head + body)
    count, per_s, running = _limit(extras)
    text, number = text_in, number_in
    return NewJob(
        id=id_text(job_id),
        type=kind,
        payload=payload,
        queue=queue,
        priority=priority,
        max_retries=max_retries,
        max_kills=max_kills,
        timeout=number(extras, b"T") or 0.0,
        run_at=number(extras, b"A"),
        delay=number(extras, b"D") or 0.0,
        expires_in=number(extras, b"E"),
        idempotency_key=text(extras, b"I"),
        unique_key=text(extras, b"U"),
        owner=owner,
        parent_id=text(extras, b"P"),
        batch_id=id_text(extras[b"B"]) if b"B" in extras else None,
        limit_key=extras[b"L"][layouts.LIMIT.size :].decode() if b"L" in extras else None,
        limit_count=count,
        limit_per_s=per_s,
        limit_running=running,
        on_success=_callback(extras.get(b"S")),
        on_failure=_callback(extras.get(b"F")),
    )


def _carried_key(name: bytes, at: float, value: bytes) -> CarriedKey:
    (size,) = struct.unpack_from(">I", name)
    owner, key = name[4 : 4 + size].decode(), name[5 + size :].decode()
    final = _STATUS_OF.get(chr(value[16]))
    return CarriedKey(owner=owner, key=key, job_id=id_text(value[:16]), digest=value[17:], created_at=at, final=final)


def _settings(value: bytes) -> tuple[bool, int]:
    paused, _, limit = value.decode().partition(":")
    return bool(int(paused) % 2), int(limit)


def _hours(stats: dict[bytes, bytes]) -> dict[int, dict[str, int]]:
    hours: dict[int, dict[str, int]] = {}
    for name, value in stats.items():
        kind, _, rest = name.decode().partition(":")
        if kind == "t":
            hours.setdefault(0, {})[rest] = int(value)
        elif kind == "h":
            hour, _, what = rest.partition(":")
            hours.setdefault(int(hour), {})[what] = int(value)
    return hours


# ---------------------------------------------------------------- in


def _job_words(carried: CarriedJob) -> Iterable[Argument]:
    """As move_in.lua takes them."""
    job = carried.job
    job_id, queue, _, body, extras = packing.job_arguments(carried.as_enqueued())
    state = _state(carried, bool(extras))
    past = b"".join(_attempt(attempt) for attempt in job.attempts[-10:])
    at = job.finished_at if not job.status.is_live else carried.due_at
    return (
        job_id, queue, job.status.value, _record(carried, body, bool(extras)), state, past,
        "" if at is None else repr(float(at)), int(carried.is_late),
    )  # fmt: skip


def _record(carried: CarriedJob, body: bytes | str, has_extras: bool) -> bytes:
    job, due_at = carried.job, carried.due_at
    has_times = due_at is not None or job.expires_at is not None
    flags = layouts.HAS_TIMES * has_times + layouts.HAS_EXTRAS * has_extras
    times = layouts.TIMES.pack(due_at or 0.0, job.expires_at or 0.0) if has_times else b""
    return layouts.HEAD.pack(flags, job.created_at, 0.0) + times + (body.encode() if isinstance(body, str) else body)


def _state(carried: CarriedJob, has_extras: bool) -> bytes:
    """Nothing for a job to which nothing has happened yet."""
    job, tail = carried.job, _tail(carried)
    counts = (job.claim, job.retry_count, job.kill_count, job.loss_count, job.misfits)
    if job.status.is_live and not any(counts) and not tail:
        return b""
    flags = _ALONE * carried.runs_alone + _EXTRAS * (has_extras or job.expires_at is not None)
    queue = job.queue.encode()
    due = carried.due_at or 0.0 if job.status.is_live else 0.0
    times = (due, job.claimed_at or 0.0, job.started_at or 0.0, job.finished_at or 0.0, job.updated_at)
    head = layouts.STATE.pack(ord(_LETTERS[job.status]), flags, *counts, *times, 0)
    return head + layouts.SHORT.pack(len(queue)) + queue + tail


def _tail(carried: CarriedJob) -> bytes:
    job = carried.job
    texts = (
        (b"w", job.reason and job.reason.value), (b"r", job.result), (b"n", job.progress_note),
        (b"c", carried.checkpoint), (b"e", job.error and "+" + job.error), (b"x", job.exception and "+" + job.exception),
    )  # fmt: skip
    parts = [frame(tag, text_bytes(text, "a text of the job")) for tag, text in texts if text is not None]
    if job.progress is not None:
        parts.append(frame(b"p", struct.pack(">d", job.progress)))
    return b"".join(parts)


def _attempt(attempt: Attempt) -> bytes:
    letter = next(letter for letter, outcome in layouts.OUTCOMES.items() if outcome is attempt.outcome)
    head = layouts.ATTEMPT.pack(min(attempt.number, 65535), attempt.started_at or 0.0, attempt.ended_at, ord(letter))
    body = head + frame(b"l", attempt.worker.encode()) + packing.cause_frames(attempt.cause)
    body += packing.output_frame(attempt.output)
    return struct.pack(">I", len(body)) + body


def _key_name(key: CarriedKey) -> bytes:
    owner = key.owner.encode()
    return struct.pack(">I", len(owner)) + owner + b"\0" + key.key.encode()


def _entries(books: Books) -> Iterator[tuple[Argument, ...]]:
    """The commands that write the books down; queues stay closed until the mark comes off."""
    for queue, (paused, limit) in books.queues.items():
        yield "HSET", "queues", queue, f"{int(paused) + 2}:{limit}"
    for name, (version, due, last_job) in books.ticks.items():
        yield "HSET", "ticks", name, f"{due:.6f} {version}"
        if last_job is not None:
            yield "HSET", "tick_jobs", name, packed_id(last_job)
    for hour, counts in books.hours.items():
        for what, amount in counts.items():
            yield "HINCRBY", "stats", f"h:{hour}:{what}" if hour else f"t:{what}", amount
    if books.ageing_s:
        yield "HSET", "stats", "ageing_s", repr(books.ageing_s)
        yield "HSET", "stats", "ageing", round(books.ageing_s * MICROSECONDS / POINTS_PER_AGEING)
    for name, value in books.settings.items():
        yield "HSET", "settings", name, value.encode()
    for entry in books.audit:
        yield "RPUSH", "audit", _audit_bytes(entry)
    for batch in books.batches:
        yield from _batch_entries(batch)


def _batch_entries(batch: CarriedBatch) -> Iterator[tuple[Argument, ...]]:
    packed = packed_id(batch.id)
    counts = [word for name in _BATCH_COUNTS for word in (name, getattr(batch, name))]
    callbacks = [(b"c", batch.on_complete), (b"s", batch.on_success)]
    packed_jobs = [word for tag, job in callbacks if job for word in (tag, packing.callback_argument(job))]
    yield "HSET", b"batch:" + packed, *counts, "created", repr(batch.created_at), *packed_jobs
    yield "ZADD", "batches", repr(batch.updated_at), packed


def _audit_bytes(entry: AuditEntry) -> bytes:
    who, act, details = (text.encode("utf-8", "backslashreplace") for text in (entry.who, entry.act, entry.details))
    return struct.pack(">dI", entry.at, len(who)) + who + struct.pack(">I", len(act)) + act + details
