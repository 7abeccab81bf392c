"""What anyone may look at, on Redis."""

import math
import struct
from typing import Any

from pool.backends.contract import (
    AuditEntry,
    BatchState,
    JobFilter,
    LimitState,
    Page,
    PoolState,
    QueueState,
    Statistics,
)
from pool.backends.redis.frames import UNREADABLE, id_text, packed_id, quick_id, text_bytes
from pool.backends.redis.records import read_job
from pool.backends.redis.upkeep import RedisUpkeep, read_facts
from pool.backends.redis.watching import read_pools
from pool.clock import as_rfc3339, monotonic_now
from pool.errors import BatchNotFound, CallerError, JobNotFound
from pool.jobs.job import Job

LOOK_AT = 2000  # jobs that one step of a listing looks at, so that it never holds the server for long
COUNTED = ("enqueued", "completed", "retried", "failed", "cancelled", "deaths")
_WHEN_AND_SIZE, _SIZE = struct.Struct(">dI"), struct.Struct(">I")
SERVER_KNOWN_S = 60.0
SHOWN_HOURLY = ("enqueued", "completed", "retried", "failed")


class RedisInspection(RedisUpkeep):
    """Inspection of the contract."""

    def __init__(self) -> None:
        super().__init__()
        self._server: dict[str, str] = {}
        self._server_known_until = 0.0

    def job(self, job_id: str) -> Job:
        return self._told("look at", job_id, self._move("job", job_id))

    def jobs(
        self, which: JobFilter, *, after: str | None = None, limit: int = 50, within_s: float | None = None
    ) -> Page:
        deadline = math.inf if within_s is None else monotonic_now() + within_s
        found: list[Job] = []
        cursor = _cursor(after)
        wanted = _filter_arguments(which)
        while True:
            args = (cursor, limit - len(found), LOOK_AT, *wanted)
            before = cursor
            cursor, *rows = self._session.run("list", self._keys.fixed, args)
            if before and cursor >= before:
                cursor = b""  # the index is broken and leads in circles
            found += [read_job(*row) for row in rows]
            if not cursor or len(found) >= limit or monotonic_now() >= deadline:
                break
        return Page(tuple(found), id_text(cursor) if cursor else None)

    def last_failed(self, limit: int = 50) -> list[Job]:
        return [read_job(*row) for row in self._session.run("last_failed", self._keys.fixed, (limit,))]

    def ahead(self, job_id: str) -> int | None:
        answer = self._move("place", job_id)
        if answer == [b"none"]:
            raise JobNotFound(job_id)
        return int(answer[0]) if answer else None

    def batch(self, batch_id: str) -> BatchState:
        answer = self._session.run("batch", self._keys.fixed, (quick_id(batch_id),))
        if not answer:
            raise BatchNotFound(batch_id)
        total, completed, failed, cancelled, created = answer
        return BatchState(
            id=batch_id,
            total=total,
            completed=completed,
            failed=failed,
            cancelled=cancelled,
            created_at=float(created),
        )

    def limits(self) -> list[LimitState]:
        rows = self._session.run("limits", self._keys.fixed)
        return sorted(map(_limit_state, rows), key=lambda limit: limit.key)

    def ageing(self) -> float:
        return float(self._session.command("HGET", self._keys.fixed[7], "ageing_s") or 0.0)

    def setting(self, name: str) -> str | None:
        found = self._session.command("HGET", self._keys.settings, text_bytes(name, "the setting's name"))
        return None if found is None else found.decode(errors="replace")

    def audit(self, limit: int = 100) -> list[AuditEntry]:
        return [_entry(raw) for raw in reversed(self._session.command("LRANGE", self._keys.audit, -limit, -1))]

    def queues(self) -> list[QueueState]:
        rows = self._session.run("queues", self._keys.fixed)
        return sorted(map(_queue_state, rows), key=lambda queue: queue.name)

    def statistics(self) -> Statistics:
        now, delayed, overdue, next_due, *counters = self._session.run("statistics", self._keys.fixed)
        totals, hours = _split_counters(counters)
        return Statistics(
            enqueued=totals["enqueued"],
            completed=totals["completed"],
            retried=totals["retried"],
            failed=totals["failed"],
            cancelled=totals["cancelled"],
            worker_deaths=totals["deaths"],
            delayed=delayed,
            overdue=overdue,
            next_due=float(next_due) if next_due else None,
            hours=_last_day(float(now), hours),
            backend=self._server_facts(),
        )

    def pools(self) -> list[PoolState]:
        rows = read_pools(self._session.run("watch", self._keys.fixed))
        now = self.server_now()
        return [
            PoolState(pool=row.pool, age_s=max(0.0, now - row.beaten_at), lost=row.lost, facts=read_facts(row.facts))
            for row in rows
            if row.beats != "0" or row.lanes
        ]

    def server_now(self) -> float:
        seconds, micros = self._session.command("TIME")
        return int(seconds) + int(micros) / 1_000_000

    def _server_facts(self) -> dict[str, Any]:
        """The whole of INFO takes as long to make and to read as all the rest of what a keeper asks."""
        if monotonic_now() >= self._server_known_until:
            self._server, self._server_known_until = self._info("server"), monotonic_now() + SERVER_KNOWN_S
        memory = self._info("memory")
        return {
            "kind": "redis",
            "server": self._server.get("server_name", "redis"),
            "version": self._server.get("valkey_version") or self._server.get("redis_version", ""),
            "memory_used": int(memory.get("used_memory", 0)),
            "memory_peak": int(memory.get("used_memory_peak", 0)),
        }

    def _info(self, *section: str) -> dict[str, str]:
        """What the server says of itself, all of it or one section."""
        text = self._session.command("INFO", *section).decode(errors="replace")
        return dict(line.split(":", 1) for line in text.splitlines() if ":" in line)


def _cursor(after: str | None) -> bytes:
    if after is None:
        return b""
    try:
        return packed_id(after)
    except ValueError as problem:
        raise CallerError(f"bad cursor {after!r}: use the `after` of the page before") from problem


def _filter_arguments(which: JobFilter) -> tuple[bytes | str, ...]:
    """As list.lua takes them: "" for any, else "=" and the value."""
    fields = (which.status, which.type, which.queue, which.owner, which.reason, which.text)
    before = "" if which.finished_before is None else repr(float(which.finished_before))
    batch = "" if which.batch_id is None else quick_id(which.batch_id)
    return (
        *("" if value is None else b"=" + str(value).encode(errors="surrogatepass") for value in fields),
        before,
        batch,
    )


def _limit_state(row: list[Any]) -> LimitState:
    key, count, per_s, max_running, running, waiting, opens_at = row
    return LimitState(
        key=key.decode(errors="replace"),
        count=count,
        per_s=float(per_s),
        max_running=max_running,
        running=running,
        waiting=waiting,
        opens_at=float(opens_at) if opens_at else None,
    )


def _entry(raw: bytes) -> AuditEntry:
    """As note.lua writes it: >d when, then who and act after their >I lengths, and the details."""
    try:
        return _read_entry(raw)
    except UNREADABLE:
        return AuditEntry(who="?", act="an entry that cannot be read")


def _read_entry(raw: bytes) -> AuditEntry:
    at, size = _WHEN_AND_SIZE.unpack_from(raw)
    act_at = _WHEN_AND_SIZE.size + size
    (act_size,) = _SIZE.unpack_from(raw, act_at)
    details_at = act_at + _SIZE.size + act_size
    return AuditEntry(
        at=at,
        who=raw[_WHEN_AND_SIZE.size : act_at].decode(errors="replace"),
        act=raw[act_at + _SIZE.size : details_at].decode(errors="replace"),
        details=raw[details_at:].decode(errors="replace"),
    )


def _queue_state(row: list[Any]) -> QueueState:
    name, pending, scheduled, running, completed, failed, _, overdue, paused, max_pending, oldest = row
    return QueueState(
        name=name.decode(errors="replace"),
        pending=pending,
        scheduled=scheduled,
        running=running,
        completed=completed,
        failed=failed,
        oldest_pending_s=float(oldest) if oldest else None,
        overdue=overdue,
        paused=bool(paused),
        max_pending=max_pending,
    )


def _split_counters(counters: list[bytes]) -> tuple[dict[str, int], dict[int, dict[str, int]]]:
    """Totals (kept hours included), and the kept hours by number since 1970."""
    totals = dict.fromkeys(COUNTED, 0)
    hours: dict[int, dict[str, int]] = {}
    for name, value in zip(counters[::2], counters[1::2], strict=True):
        kind, _, rest = name.decode(errors="replace").partition(":")
        hour, _, what = rest.rpartition(":")
        if kind in ("t", "h") and value.isdigit() and (hour.isdecimal() or kind == "t"):
            totals[what] = totals.get(what, 0) + int(value)
            if kind == "h":
                hours.setdefault(int(hour), {})[what] = int(value)
    return totals, hours


def _last_day(now: float, hours: dict[int, dict[str, int]]) -> tuple[dict[str, Any], ...]:
    last = int(now // 3600)
    return tuple(
        {"hour": as_rfc3339(hour * 3600.0), **{what: hours.get(hour, {}).get(what, 0) for what in SHOWN_HOURLY}}
        for hour in range(last - 23, last + 1)
    )
