"""One connection, on uvicorn's h11 protocol: deadlines for heads, bodies and readers, and a cap on how many there are.

uvicorn itself closes what idles after an answer; it waits for ever for a client that never ends a head or a body, or
never takes an answer. Deadlines are kept here, where a request that is quick costs none. And it sends the head of an
answer and its body one by one, each with a system call, which is a good part of what a short answer costs.
"""

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_WITHIN_S = 10.0
BODY_WITHIN_S = 30.0
TAKE_ANSWER_WITHIN_S = 30.0
MAX_CONNECTIONS = 1000
_FULL = (
    b"HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\nretry-after: 2\r\n"
    b"content-type: application/problem+json\r\ncontent-length: 97\r\n\r\n"
    b'{"type":"urn:jobpool:too-many-connections","title":"too many","status":503,"detail":"try again"}\n'
)


class Joining:
    """The transport, but that the head of an answer waits for what follows it, until the loop's next turn at most."""

    __slots__ = ("_head", "_loop", "_transport")

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport, self._loop, self._head = transport, loop, b""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        if self._head:
            data, self._head = self._head + data, b""
        elif data.startswith(b"HTTP/1.1 "):
            self._head = data
            self._loop.call_soon(self._flush)
            return
        if data:
            self._transport.write(data)

    def close(self) -> None:
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        if self._head:
            self.write(b"")


class Connection(H11Protocol):
    """See the module."""

    _head_deadline: asyncio.TimerHandle | None = None
    _body_deadline: asyncio.TimerHandle | None = None
    _reader_deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(Joining(transport, self.loop))  # type: ignore[arg-type]
        if len(self.connections) > MAX_CONNECTIONS:
            transport.write(_FULL)
            transport.close()
            return
        self._await_head()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._is_between_requests():
            self._await_head()
        else:
            self._head_is_there()
            self._await_body()

    def connection_lost(self, exc: Exception | None) -> None:
        self._head_is_there()
        self._stop("_body_deadline")
        self._stop("_reader_deadline")
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """The client does not read what it is sent."""
        super().pause_writing()
        self._reader_deadline = self.loop.call_later(TAKE_ANSWER_WITHIN_S, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stop("_reader_deadline")

    def on_response_complete(self) -> None:
        self._stop("_body_deadline")
        super().on_response_complete()
        if self._is_between_requests() and self.conn.trailing_data[0]:
            self._await_head()  # a next head has begun to arrive already

    def _is_between_requests(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _await_head(self) -> None:
        """Once begun, the deadline does not move: a byte now and then is no progress."""
        if self._head_deadline is None and not self.transport.is_closing():
            self._head_deadline = self.loop.call_later(HEAD_WITHIN_S, self._give_up)

    def _head_is_there(self) -> None:
        self._stop("_head_deadline")

    def _await_body(self) -> None:
        if not self.cycle.more_body:
            self._stop("_body_deadline")
        elif self._body_deadline is None:
            self._body_deadline = self.loop.call_later(BODY_WITHIN_S, self.transport.abort)

    def _stop(self, name: str) -> None:
        timer: asyncio.TimerHandle | None = getattr(self, name)
        if timer is not None:
            timer.cancel()
            setattr(self, name, None)

    def _give_up(self) -> None:
        self._head_deadline = None
        if self._is_between_requests():
            self.transport.abort()

    def _get_upgrade(self) -> Any:
        return None  # no other protocol is spoken here
