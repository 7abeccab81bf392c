"""The pages, each a view: what is shown is made from the query alone, so that a page and its live updates are the same."""

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from fastapi import APIRouter, Request
from starlette.responses import Response

from pool.backends.contract import Backend, PoolState
from pool.errors import JobNotFound, JobpoolError
from pool.jobs.documents import REDACT_SETTING, hidden_fields
from pool.jobs.job import Job
from pool.jobs.lifecycle import Reason, Status
from pool.jobs.schedule import Timing, next_tick, timing_from
from pool.settings import ScheduleSection
from pool.web.auth import Caller
from pool.web.dashboard import bulk, charts, listing
from pool.web.dashboard.entrance import Dashboard, admin_of, back, dashboard_of, page
from pool.web.dashboard.sessions import HOME
from pool.web.dashboard.survey import Snapshot
from pool.web.dashboard.verdict import all_is_well, living, troubles, worker_counts
from pool.web.dashboard.waits import waits_in
from pool.web.views import document_for, shown_holder
from pool.why import reasons, serves

Query = Mapping[str, str]
_ADMIN = Caller("", "admin")
Shown = tuple[str, dict[str, Any]]
View = Callable[[Dashboard, Query], Awaitable[Shown]]
NEXT_RUNS = 3

router = APIRouter(include_in_schema=False)


async def overview(dashboard: Dashboard, query: Query) -> Shown:
    """Everything at a glance, and the sentence that says what is wrong."""
    now = await dashboard.survey.look()
    numbers = now.statistics
    day = numbers.hours if numbers else ()
    failed, completed = (sum(int(hour[name]) for hour in day) for name in ("failed", "completed"))
    return "overview.html", {
        "now": now,
        "troubles": troubles(now),
        "well": all_is_well(now),
        "workers": worker_counts(now),
        "waits": waits_in(now.status),
        "pools": [_pool(pool, now) for pool in now.pools],
        "day_failed": failed,
        "day_completed": completed,
        "fail_share": failed / (failed + completed) if failed + completed else None,
        "rate": charts.per_minute(now.samples) if now.samples else None,
        "queues": sorted(now.queues, key=lambda queue: (-queue.pending, -queue.running, queue.name))[:10],
    }


async def queues(dashboard: Dashboard, query: Query) -> Shown:
    now = await dashboard.survey.look()
    alive = living(now)
    rows = [(queue, not alive or any(serves(pool, queue.name) for pool in alive)) for queue in now.queues]
    return "queues.html", {"now": now, "rows": rows, "works": await dashboard.services.desk.ask(bulk.recent)}


async def jobs(dashboard: Dashboard, query: Query) -> Shown:
    """A page of the search; `after` and `searched` come from the link to the next page."""
    asked = listing.Asked(
        query.get("status", "") if query.get("status") in set(Status) else "",
        *(query.get(name, "").strip()[:200] for name in ("type", "queue", "q")),
    )
    after, searched = query.get("after") or None, _number(query.get("searched", ""), 0, 10**9)
    hidden = dashboard.services.types.redacted
    found = await dashboard.services.desk.ask(lambda store: listing.find(store, asked, after, searched, hidden))
    now = await dashboard.survey.look()
    return "jobs.html", {
        "asked": asked,
        "found": found,
        "after": after,
        "now": now,
        "types": _types(dashboard),
        "holder": shown_holder,
    }


async def job(dashboard: Dashboard, query: Query) -> Shown:
    """One job with all that is known of it, and why it is where it is."""

    def ask(store: Backend) -> tuple[Job, list[str], frozenset[str]]:
        found, pools = store.job(query["id"]), store.pools()
        hidden = never_shown(found.type, store.setting(REDACT_SETTING), pools)
        return found, reasons(found, store.queues(), pools, now=store.server_now()), hidden

    found, why, hidden = await dashboard.services.desk.ask(ask)
    document = document_for(found, _ADMIN, hidden | dashboard.services.types.redacted(found.type))
    return "job.html", {"job": found, "document": document, "why": why}


async def dead(dashboard: Dashboard, query: Query) -> Shown:
    groups, looked = await dashboard.services.desk.ask(lambda store: listing.newest_dead(store, query))
    now = await dashboard.survey.look()
    return "dead.html", {
        "now": now,
        "groups": groups,
        "looked": looked,
        "total": now.total("failed"),
        "works": await dashboard.services.desk.ask(bulk.recent),
        "reasons": [str(reason) for reason in Reason],
        "asked": {"reason": query.get("reason", ""), "q": query.get("q", "")},
    }


async def schedule(dashboard: Dashboard, query: Query) -> Shown:
    """The entries of this pool's configuration with their runs; those of other pools by name."""
    entries = dashboard.services.config.schedule

    def ask(store: Backend) -> tuple[float, dict[str, float | None]]:
        return store.server_now(), {entry.name: store.last_tick(entry.name) for entry in entries}

    wall, last = await dashboard.services.desk.ask(ask)
    now = await dashboard.survey.look()
    own = {entry.name for entry in entries}
    elsewhere = {
        name: f"{pool.pool.name} on {pool.pool.host}"
        for pool in living(now)
        for name in pool.facts.get("schedule") or ()
        if name not in own
    }
    rows = [(entry, last[entry.name], _next_runs(entry, wall)) for entry in entries]
    return "schedule.html", {"rows": rows, "elsewhere": sorted(elsewhere.items())}


async def pools(dashboard: Dashboard, query: Query) -> Shown:
    now = await dashboard.survey.look()
    return "pools.html", {"now": now, "pools": [_pool(pool, now) for pool in now.pools], "status": now.status}


VIEWS: dict[str, View] = {
    HOME: overview,
    "/ui/queues": queues,
    "/ui/jobs": jobs,
    "/ui/dead": dead,
    "/ui/schedule": schedule,
    "/ui/pools": pools,
}


def view_of(path: str, query: Query) -> tuple[View, Query] | None:
    """The view of a page's path, and its query with what the path itself says."""
    if path in VIEWS:
        return VIEWS[path], query
    head, _, job_id = path.rpartition("/")
    return (job, {**query, "id": job_id}) if head == "/ui/jobs" and job_id else None


async def show(request: Request) -> Response:
    """Any page."""
    admin_of(request)
    found = view_of(request.url.path, request.query_params)
    if found is None:
        raise JobNotFound(request.url.path)
    view, query = found
    try:
        template, facts = await view(dashboard_of(request), query)
    except JobNotFound as error:
        return page(request, "trouble.html", code=404, says=str(error))
    except JobpoolError as error:
        return page(request, "trouble.html", code=503, says=str(error))
    return page(request, template, **facts)


@router.get("/ui/find")
async def find_job(request: Request) -> Response:
    """The search field of every page: an id leads to its job, any other text to the list."""
    admin_of(request)
    text = request.query_params.get("q", "").strip()[:200]
    try:
        found = await dashboard_of(request).services.desk.ask(lambda store: store.job(text))
    except JobpoolError:
        return _to_list(text)
    return back(f"/ui/jobs/{found.id}")


for _path in (*VIEWS, "/ui/jobs/{id}"):
    router.add_api_route(_path, show, methods=["GET"])


# ---------------------------------------------------------------- small things


def never_shown(type_name: str, kept: str | None, pools: Sequence[PoolState]) -> frozenset[str]:
    """Payload fields of a type that are hidden, as the store remembers and as any pool says now: none is missed."""
    remembered = json.loads(kept or "{}").get(type_name, ())
    said = (hidden_fields(pool.facts.get("types") or {}).get(type_name, frozenset()) for pool in pools)
    return frozenset(map(str, remembered)).union(*said)


def _to_list(text: str) -> Response:
    return back(f"/ui/jobs?q={quote(text)}")


def _pool(state: PoolState, now: Snapshot) -> dict[str, Any]:
    """A pool as drawn: its workers one by one where it is ours, else as many cells as it says."""
    own = (now.status or {}).get("pool") or {}
    is_own = own.get("incarnation") == state.pool.incarnation
    counts = {str(name): int(count) for name, count in (state.facts.get("workers") or {}).items()}
    cells = [{"state": name} for name, many in sorted(counts.items()) for _ in range(many)]
    return {
        "name": state.pool.name,
        "host": state.pool.host,
        "version": state.facts.get("version"),
        "groups": state.facts.get("groups") or {},
        "age_s": state.age_s,
        "state": "lost" if state.lost else own.get("state", "alive") if is_own else "alive",
        "is_own": is_own,
        "workers": now.status["workers"] if is_own and now.status else cells,
    }


def _types(dashboard: Dashboard) -> list[str]:
    return [known.name for known in dashboard.services.types.all(_ADMIN)]


def _next_runs(entry: ScheduleSection, wall: float) -> list[float]:
    timing: Timing = timing_from(cron=entry.cron, every=entry.every, timezone=entry.timezone)
    runs: list[float] = []
    while len(runs) < NEXT_RUNS:
        tick = next_tick(timing, runs[-1] if runs else wall)
        if tick is None:
            break
        runs.append(tick)
    return runs


def _number(text: str, low: int, high: int) -> int:
    return max(low, min(high, int(text))) if text.isascii() and text.isdigit() and len(text) < 12 else low
