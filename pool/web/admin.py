"""Routes for looking at the whole: types, panel, health, the document of the API itself."""

from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import JSONResponse

from pool.jobs.published import PublishedType
from pool.web.openapi import document_of, documented
from pool.web.panel import panel
from pool.web.services import caller_of, services_of

router = APIRouter()


@router.get("/types", **documented("list job types", ok={200: "Types"}))
async def list_types(request: Request) -> JSONResponse:
    """Every job type that is known (to a producer: that it may enqueue), with the JSON Schema of its payload."""
    caller, services = caller_of(request), services_of(request)
    return JSONResponse({"types": [_type(known) for known in services.types.all(caller)]})


@router.get("/admin/queues", **documented("the monitoring panel", ok={200: "Panel"}))
async def show_panel(request: Request) -> JSONResponse:
    """Queue lengths, delayed and dead jobs, totals and hours, and the store itself."""
    caller_of(request, "admin")
    services = services_of(request)
    configured = [queue.name for queue in services.config.queues]
    document = await services.desk.ask(lambda store: panel(store, configured))
    return JSONResponse({**document, "web": {"failed_sign_ins": services.failures.total}})


@router.get("/healthz", **documented("is the server alive", ok={200: "Health"}, public=True))
async def health(request: Request) -> JSONResponse:
    """200 as long as the server answers, whatever the store does."""
    return JSONResponse({"status": "ok"})


@router.get("/openapi.json", include_in_schema=False)
async def api_document(request: Request) -> JSONResponse:
    """The OpenAPI document."""
    caller, services = request.state.caller, services_of(request)
    types = services.types.all(caller) if caller else []
    return JSONResponse(document_of(request.app, caller, types))


def _type(known: PublishedType) -> dict[str, Any]:
    return {
        "name": known.name,
        "queue": known.terms.queue,
        "priority": known.terms.priority,
        "max_retries": known.terms.max_retries,
        "timeout": known.terms.timeout,
        "aliases": list(known.aliases),
        "schema": dict(known.schema),
    }
