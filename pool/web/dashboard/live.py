"""Live updates: the changing part of a page, rendered again each second or two and sent when it is another.

Server-sent events, one stream per open page. The browser puts the new markup in place of the old, node by node.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from urllib.parse import parse_qsl

from fastapi import APIRouter, Request
from starlette.responses import Response, StreamingResponse

from pool.errors import JobpoolError
from pool.web.dashboard.entrance import admin_of, common_facts, dashboard_of
from pool.web.dashboard.pages import view_of
from pool.web.problems import Problem

EVERY_S = 1.0
SEARCHING_EVERY_S = 5.0
SIGN_EVERY_S = 15.0
LASTS_S = 3600.0
MOST_STREAMS = 200
BROWSER_RETRY_MS = 2000

router = APIRouter(include_in_schema=False)
_streams: set[int] = set()


@router.get("/ui/live")
async def live(request: Request) -> Response:
    """The stream of the page named by `page`, its query included."""
    admin_of(request)
    path, _, query = request.query_params.get("page", "/").partition("?")
    if view_of(path, {}) is None:
        raise Problem(404, "not-found", "there is no such page")
    if len(_streams) >= MOST_STREAMS:
        raise Problem(503, "too-many", "too many pages are open", headers={"Retry-After": "10"})
    stream = _events(request, path, dict(parse_qsl(query)))
    return StreamingResponse(stream, media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})


async def _events(request: Request, path: str, query: dict[str, str]) -> AsyncIterator[str]:
    mine = id(request)
    _streams.add(mine)
    try:
        yield f"retry: {BROWSER_RETRY_MS}\n\n"
        last, quiet_s, open_s = "", 0.0, 0.0
        pause = SEARCHING_EVERY_S if query.get("q") else EVERY_S
        while open_s < LASTS_S and not await _is_over(request, pause if last else 0.0):
            html = await _markup(request, path, query)
            quiet_s, open_s = quiet_s + pause, open_s + pause
            if html != last:
                last, quiet_s = html, 0.0
                yield f"data: {json.dumps(html)}\n\n"
            elif quiet_s >= SIGN_EVERY_S:
                quiet_s = 0.0
                yield ": still here\n\n"
    finally:
        _streams.discard(mine)


async def _is_over(request: Request, pause: float) -> bool:
    """Whether the server is to stop or the reader has left; waits for the pause in any case."""
    stopping = dashboard_of(request).services.stopping
    try:
        await asyncio.wait_for(stopping.wait(), pause or 0.001)
        return True
    except TimeoutError:
        return await request.is_disconnected()


async def _markup(request: Request, path: str, query: dict[str, str]) -> str:
    """The live block of the page as it would be rendered now; a line about the trouble when it cannot be."""
    dashboard = dashboard_of(request)
    found = view_of(path, query)
    if found is None:
        return ""
    view, query_of_view = found
    common = {**common_facts(request), "path": path, "said": ""}
    try:
        template, facts = await view(dashboard, query_of_view)
    except JobpoolError as error:
        return dashboard.renderer.block("trouble.html", "live", **common, says=str(error))
    return dashboard.renderer.block(template, "live", **common, **facts)
