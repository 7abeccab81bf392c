"""What anyone may look at, on Redis."""

from typing import Any

from pool.backends.contract import JobFilter, Page, PoolState, QueueState, Statistics
from pool.backends.redis.records import id_text, packed_id, read_job
from pool.backends.redis.upkeep import RedisUpkeep, read_facts
from pool.backends.redis.watching import Watched
from pool.clock import as_rfc3339
from pool.errors import CallerError
from pool.jobs.job import Job

LOOK_AT = 2000  # jobs that one step of a listing looks at, so that it never holds the server for long
COUNTED = ("enqueued", "completed", "retried", "failed", "cancelled", "deaths")
SHOWN_HOURLY = ("enqueued", "completed", "retried", "failed")


class RedisInspection(RedisUpkeep):
    """Inspection of the contract."""

    def job(self, job_id: str) -> Job:
        return self._told("look at", job_id, self._move("job", job_id))

    def jobs(self, which: JobFilter, *, after: str | None = None, limit: int = 50) -> Page:
        found: list[Job] = []
        cursor = _cursor(after)
        wanted = _filter_arguments(which)
        while True:
            args = (cursor, limit - len(found), LOOK_AT, *wanted)
            cursor, *rows = self._session.run("list", self._keys.fixed, args)
            found += [read_job(*row) for row in rows]
            if not cursor or len(found) >= limit:
                break
        return Page(tuple(found), id_text(cursor) if cursor else None)

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
        rows = [Watched.read(row) for row in self._session.run("watch", self._keys.fixed)]
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
        info = self._info()
        return {
            "kind": "redis",
            "server": info.get("server_name", "redis"),
            "version": info.get("valkey_version") or info.get("redis_version", ""),
            "memory_used": int(info.get("used_memory", 0)),
            "memory_peak": int(info.get("used_memory_peak", 0)),
        }

    def _info(self) -> dict[str, str]:
        text = self._session.command("INFO").decode(errors="replace")
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
    return *("" if value is None else b"=" + str(value).encode(errors="surrogatepass") for value in fields), before


def _queue_state(row: list[Any]) -> QueueState:
    name, pending, scheduled, running, completed, failed, _, overdue, paused, max_pending, oldest = row
    return QueueState(
        name=name.decode(),
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
        kind, _, rest = name.decode().partition(":")
        if kind == "t":
            totals[rest] = totals.get(rest, 0) + int(value)
        elif kind == "h":
            hour, _, what = rest.partition(":")
            totals[what] = totals.get(what, 0) + int(value)
            hours.setdefault(int(hour), {})[what] = int(value)
    return totals, hours


def _last_day(now: float, hours: dict[int, dict[str, int]]) -> tuple[dict[str, Any], ...]:
    last = int(now // 3600)
    return tuple(
        {"hour": as_rfc3339(hour * 3600.0), **{what: hours.get(hour, {}).get(what, 0) for what in SHOWN_HOURLY}}
        for hour in range(last - 23, last + 1)
    )
