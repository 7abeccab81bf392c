"""One connection to the status socket: one request, one answer, then closed. Never waits, never raises."""

import contextlib
import socket
from collections.abc import Callable
from enum import Enum

import h11

from pool.clock import monotonic_now
from pool.supervisor.http import Answer, Request, problem

LONGEST_HEAD = 16 * 1024
LONGEST_BODY = 64 * 1024
PATIENCE_S = 5.0
_CHUNK = 64 * 1024


class Doing(Enum):
    READING = 1
    WAITING = 2  # for the outcome of a command; no deadline, as long as the caller stays
    WRITING = 3
    DRAINING = 4  # answered before the request was complete: an abrupt close would destroy the answer on its way
    CLOSED = 5


class StatusClient:
    """Feeds h11 with what arrives, hands the whole request to `serve`, sends the answer.

    `serve(client, request)` returns the answer, or None when `answer_later` will bring it (or has done so).
    `forget(client)` is called just before the descriptor is closed. `deadline`: close it then.
    """

    def __init__(
        self,
        connection: socket.socket,
        may_command: bool,
        serve: Callable[["StatusClient", Request], Answer | None],
        forget: Callable[["StatusClient"], None],
    ) -> None:
        self.socket = connection
        self._may_command, self._serve, self._forget = may_command, serve, forget
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=LONGEST_HEAD)
        self._head: h11.Request | None = None
        self._body = bytearray()
        self._unsent = memoryview(b"")
        self._request_is_complete = False
        self.doing = Doing.READING
        self.deadline: float | None = monotonic_now() + PATIENCE_S

    def proceed(self) -> None:
        """The socket is ready for something: do as much as goes without waiting."""
        try:
            if self.doing is Doing.WRITING:
                self._send()
            else:
                self._receive()
        except (BlockingIOError, InterruptedError):
            pass
        except OSError:
            self.close()

    def close(self) -> None:
        """Hang up; harmless the second time."""
        if self.doing is not Doing.CLOSED:
            self.doing, self.deadline = Doing.CLOSED, None
            self._forget(self)
            self.socket.close()

    # ------------------------------------------------------------------ the request

    def _receive(self) -> None:
        data = self.socket.recv(_CHUNK)
        if not data:  # a caller that has gone or will say no more; its command goes on without it
            self.close()
        elif self.doing is Doing.READING:
            self._feed(data)

    def _feed(self, data: bytes) -> None:
        try:
            self._http.receive_data(data)
            self._take_events()
        except h11.RemoteProtocolError as error:
            status = error.error_status_hint
            self._answer(problem(status if status in (400, 431) else 400, str(error)))

    def _take_events(self) -> None:
        while self.doing is Doing.READING:
            event = self._http.next_event()
            if isinstance(event, h11.Request):
                self._head = event
                self._say_continue()
            elif isinstance(event, h11.Data):
                self._take_body(bytes(event.data))
            elif isinstance(event, h11.EndOfMessage):
                self._ask()
            else:  # NEED_DATA, or what can only follow the end
                return

    def _say_continue(self) -> None:
        if self._http.they_are_waiting_for_100_continue:
            with contextlib.suppress(OSError):
                self.socket.send(self._http.send(h11.InformationalResponse(status_code=100, headers=[])) or b"")

    def _take_body(self, data: bytes) -> None:
        self._body += data
        if len(self._body) > LONGEST_BODY:
            self._answer(problem(413, f"a body may have {LONGEST_BODY:,} bytes"))

    def _ask(self) -> None:
        head = self._head
        if head is None:
            return self.close()
        path = head.target.decode("ascii", "replace").partition("?")[0]
        request = Request(head.method.decode("ascii"), path, bytes(self._body), self._may_command)
        self.doing, self.deadline = Doing.WAITING, None
        answer = self._serve(self, request)
        if answer is not None:
            self._answer(answer)
        return None

    # ------------------------------------------------------------------ the answer

    def answer_later(self, answer: Answer) -> None:
        """The outcome of the command this client waits for; ignored when it has gone."""
        if self.doing is Doing.WAITING:
            self._answer(answer)

    def _answer(self, answer: Answer) -> None:
        self._unsent = memoryview(self._encoded(answer))
        self._request_is_complete = self.doing is Doing.WAITING
        self.doing, self.deadline = Doing.WRITING, monotonic_now() + PATIENCE_S
        self.proceed()

    def _encoded(self, answer: Answer) -> bytes:
        headers = {
            "Content-Type": answer.content_type,
            "Content-Length": str(len(answer.body)),
            "Cache-Control": "no-store",
            "X-Content-Type-Options": "nosniff",
            "Connection": "close",
            **answer.headers,
        }
        is_head = self._head is not None and self._head.method == b"HEAD"
        parts = [self._http.send(h11.Response(status_code=answer.status, headers=list(headers.items()), reason=b""))]
        if not is_head:
            parts.append(self._http.send(h11.Data(data=answer.body)))
        parts.append(self._http.send(h11.EndOfMessage()))
        return b"".join(part or b"" for part in parts)

    def _send(self) -> None:
        while self._unsent:
            self._unsent = self._unsent[self.socket.send(self._unsent, socket.MSG_NOSIGNAL) :]
        if self._request_is_complete:
            self.close()
        else:
            self.doing = Doing.DRAINING
            self.socket.shutdown(socket.SHUT_WR)
