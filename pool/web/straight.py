"""The hot route, POST /jobs, straight from the door to the store.

The framework's own way to a route costs as much time as everything that is done in it. Same checks, same answers as
the documented route in `jobs`; measured in tests/web/test_load.py.
"""

from pydantic_core import to_json
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from pool.errors import JobpoolError
from pool.web.jobs import enqueue_one, one_key
from pool.web.problems import Problem, response_to
from pool.web.services import Services, refuse_other_roles, refuse_other_than_json

PRODUCERS = ("producer",)


def is_enqueue(scope: Scope) -> bool:
    """Whether this is a request of the hot route."""
    return bool(scope["type"] == "http" and scope["path"] == "/jobs" and scope["method"] == "POST")


class StraightEnqueue:
    """ASGI application behind the door: the caller is known."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            response = await self._enqueue(scope, receive)
        except JobpoolError as error:
            response = response_to(error)
        await response(scope, receive, send)

    async def _enqueue(self, scope: Scope, receive: Receive) -> Response:
        caller = scope["state"]["caller"]
        refuse_other_roles(caller, PRODUCERS)
        content_type, keys = _headers(scope)
        raw = await _body(receive)
        if raw:
            refuse_other_than_json(content_type)
        status, document = await enqueue_one(self._services, caller, raw, one_key(keys))
        return Response(to_json(document), status, media_type="application/json")


def _headers(scope: Scope) -> tuple[str, list[str]]:
    """The content type, and every idempotency key."""
    content_type, keys = "", []
    for name, value in scope["headers"]:
        if name == b"content-type":
            content_type = value.decode("latin-1")
        elif name == b"idempotency-key":
            keys.append(value.decode("latin-1"))
    return content_type, keys


async def _body(receive: Receive) -> bytes:
    parts = []
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Problem(400, "disconnected", "the client left before its body was complete")
        parts.append(message.get("body", b""))
        if not message.get("more_body", False):
            return b"".join(parts)
