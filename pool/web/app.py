"""The application: services, routes, and what every request goes through.

From the outside in: `LastResort` (headers, nothing escapes), `BodyLimit`, `Door` (who is calling), the routes. The hot route
goes through the same doors, but past the framework, which would take a good part of its time.
More routes are added with `app.include_router`; another way to sign in with `app.state.sign_in_ways.append(…)`, a
function from the ASGI scope to a `Caller` or None; pages for strangers with `app.state.open_paths.add(…)`.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Match
from starlette.types import ASGIApp, Receive, Scope, Send

from pool.backends.contract import Backend
from pool.errors import JobpoolError
from pool.settings import Config
from pool.version import VERSION
from pool.web import admin, events, jobs, work
from pool.web.auth import Door, Tokens
from pool.web.dashboard.hook import add_dashboard
from pool.web.desk import StoreDesk
from pool.web.limits import BodyLimit, LastResort
from pool.web.problems import Problem, response_to
from pool.web.services import Services
from pool.web.straight import StraightEnqueue, is_enqueue
from pool.web.typebook import TypeBook
from pool.web.webhooks import deliver_all

OPEN_PATHS = frozenset({"/healthz", "/openapi.json"})


class App(FastAPI):
    """The framework, and a way past it for the hot route."""

    straight: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await (self.straight if is_enqueue(scope) else super().__call__)(scope, receive, send)


def create_app(config: Config, open_store: Callable[[], Backend]) -> App:
    """The HTTP API on the store that `open_store` opens (once in each thread)."""
    services = Services(config, StoreDesk(open_store), Tokens(config.tokens), TypeBook(config), asyncio.Event())
    app = App(
        title="jobpool",
        version=VERSION,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        lifespan=_lifespan,
    )
    app.state.services = services
    app.state.events = events.Events(services)
    app.state.sign_in_ways = [services.tokens.by_bearer]
    app.state.open_paths = set(OPEN_PATHS)
    for router in (work.router, jobs.router, admin.router, events.router):  # /jobs/claim stands before /jobs/{id}
        app.router.routes.extend(router.routes)
    add_dashboard(app, config)
    _answer_errors(app)
    _put_behind_doors(app, StraightEnqueue(services), services)
    return app


def _put_behind_doors(app: App, straight: ASGIApp, services: Services) -> None:
    known = {"ways": app.state.sign_in_ways, "open_paths": app.state.open_paths, "failures": services.failures}
    doors: list[tuple[Any, dict[str, Any]]] = [(Door, known), (BodyLimit, {}), (LastResort, {})]
    for door, options in doors:
        app.add_middleware(door, **options)
        straight = door(straight, **options)
    app.straight = straight


@contextlib.asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    services: Services = app.state.services
    chores = [asyncio.create_task(services.keep_types_fresh()), asyncio.create_task(app.state.dashboard.carrier.run())]
    if services.config.web.callback_hosts:
        chores.append(asyncio.create_task(deliver_all(services)))
    yield
    services.stopping.set()
    for chore in chores:
        chore.cancel()
    services.desk.close()


def _answer_errors(app: FastAPI) -> None:
    async def ours(request: Request, error: Exception) -> Response:
        known = error if isinstance(error, JobpoolError) else Problem(500, "internal-error", "a fault of the server")
        return response_to(known)

    async def unfit(request: Request, error: Exception) -> Response:
        found = error.errors() if isinstance(error, RequestValidationError) else []
        problems = {".".join(map(str, each["loc"])): str(each["msg"]) for each in found}
        listing = "; ".join(f"{field}: {problem}" for field, problem in problems.items())
        return Problem(
            422, "invalid-request", f"the request does not fit: {listing}"[:2000], problems=problems
        ).response()

    async def by_router(request: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 500
        return _routing_problem(request, status).response()

    app.add_exception_handler(JobpoolError, ours)
    app.add_exception_handler(RequestValidationError, unfit)
    app.add_exception_handler(HTTPException, by_router)


def _routing_problem(request: Request, status: int) -> Problem:
    if status == 405:
        allowed = ", ".join(_methods(request))
        return Problem(405, "method-not-allowed", f"use {allowed}", headers={"Allow": allowed})
    if status == 404:
        return Problem(404, "not-found", "there is nothing at this path")
    return Problem(status, "invalid-request", "the request cannot be answered")


def _methods(request: Request) -> list[str]:
    """Every method that a route at this path has."""
    scope: dict[str, Any] = dict(request.scope)
    routes = [route for route in request.app.routes if route.matches(scope)[0] is not Match.NONE]
    literal = [route for route in routes if route.path == request.url.path and route.include_in_schema]
    routes = literal or routes
    return sorted({method for route in routes for method in getattr(route, "methods", None) or ()})
