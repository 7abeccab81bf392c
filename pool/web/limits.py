"""What no request may exceed: the size of its body. And what no answer may lack.

The size is counted as it arrives, so that neither a missing nor a lying Content-Length gets anything past it.
"""

import asyncio
import contextlib
from collections.abc import Iterable, MutableMapping
from typing import Any

import h11
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pool.errors import JobpoolError
from pool.logs import log
from pool.web.problems import Problem, problem_of

MAX_BODY = 1024 * 1024
MAX_BATCH_BODY = 16 * 1024 * 1024
THROW_AWAY, THROW_AWAY_S = 4 * 1024 * 1024, 1.0
BATCH_PATH = "/jobs/batch"

# The dashboard sets its own policy on its own pages.
HEADERS = {
    b"x-content-type-options": b"nosniff",
    b"cache-control": b"no-store",
    b"content-security-policy": b"default-src 'none'; frame-ancestors 'none'",
    b"referrer-policy": b"no-referrer",
}


class BodyTooLarge(Problem):
    """More bytes than a request of this path may have; the rest is not read."""

    def __init__(self, limit: int) -> None:
        super().__init__(
            413, "body-too-large", f"the body is longer than {limit:,} bytes", headers={"Connection": "close"}
        )


class LastResort:
    """ASGI middleware, the outermost: adds the headers every answer has, and answers whatever was raised."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        answer = _Answer(send)
        try:
            await self._app(scope, receive, answer.send)
        except Exception as error:
            if _client_broke_off(error):
                return  # there is nobody to answer, and nothing that we did wrong
            problem = _as_problem(error)
            if not answer.has_begun:
                await problem.response()(scope, receive, answer.send)


def _client_broke_off(error: Exception) -> bool:
    """It left in the midst of its body, or went on with what is no HTTP, which is answered already."""
    is_answered = isinstance(error, h11.LocalProtocolError) and "can't handle event type" in str(error)
    return is_answered or isinstance(error, ClientDisconnect)


def _as_problem(error: Exception) -> Problem:
    """A fault of ours is told to the log by its class and place only: its text may hold a payload."""
    if isinstance(error, JobpoolError):
        return problem_of(error)
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    line = f"{place.tb_frame.f_code.co_name}:{place.tb_lineno}" if place else ""
    log.error("request failed by a fault of ours", error=type(error).__name__, where=line)
    return Problem(500, "internal-error", "a fault of the server; it is in its log")


class _Answer:
    """The way out: security headers for every answer."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.has_begun = False

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.has_begun = True
            message["headers"] = [*message.get("headers", ()), *_missing(message.get("headers", ()))]
        await self._send(message)


def _missing(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    there = {name.lower() for name, _ in headers}
    return [(name, value) for name, value in HEADERS.items() if name not in there]


class BodyLimit:
    """ASGI middleware: refuses a body that is too long while it is being read. (`protocol` cuts off slow ones.)"""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        limit = MAX_BATCH_BODY if scope["path"] == BATCH_PATH else MAX_BODY
        counted = _Counted(receive, send, limit)
        if _declared_length(scope) > limit:
            counted.is_over = True
            await BodyTooLarge(limit).response()(scope, counted.receive, counted.send)
        else:
            await self._app(scope, counted.receive, counted.send)


class _Counted:
    """The way in, counted until the body is complete; afterwards it only tells that the client has left.

    After a 413 a little more is read and thrown away before the connection is closed: closing on unread bytes resets
    it, and the client, still sending, would never see the answer.
    """

    def __init__(self, receive: Receive, send: Send, limit: int) -> None:
        self._receive, self._send, self._limit = receive, send, limit
        self._size, self._is_complete = 0, False
        self.is_over = False

    async def receive(self) -> Message:
        if self._is_complete:
            return await self._receive()
        message = await self._receive()
        self._size += len(message.get("body", b""))
        self._is_complete = not message.get("more_body", False)
        if self._size > self._limit:
            self.is_over = True
            raise BodyTooLarge(self._limit)
        return message

    async def send(self, message: Message) -> None:
        if not self.is_over or message["type"] != "http.response.body":
            await self._send(message)
            return
        await self._send({**message, "more_body": True})
        await self._throw_away()
        await self._send({"type": "http.response.body", "body": b""})

    async def _throw_away(self) -> None:
        size = 0
        message: MutableMapping[str, Any] = {}
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(THROW_AWAY_S):
                while size < THROW_AWAY and message.get("more_body", True) and message.get("type") != "http.disconnect":
                    message = await self._receive()
                    size += len(message.get("body", b""))


def _declared_length(scope: Scope) -> int:
    for name, value in scope["headers"]:
        if name == b"content-length":
            return int(value[:20])  # h11 has refused anything but digits
    return 0
