"""A TCP link that can be cut, delayed, swallowed, or cut after an exact number of bytes: one per process that uses it.

with Proxy(server.port) as link:
    link.port                    # connect here
    link.swallow()               # bytes vanish in both directions, sockets stay open
    link.cut()                   # reset every connection now; new ones are accepted
    link.refuse()                # and refuse new ones, until heal()
    link.cut_after(replies=17)   # the 18th byte of replies from now on never arrives; then as cut(), or refuse=True
    link.heal()
"""

import asyncio
import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar

T = TypeVar("T")
CHUNK = 65_536
RESET = struct.pack("ii", 1, 0)  # SO_LINGER: close with a reset, so that the peer learns of it at once


@dataclass
class Way:
    """One direction: bytes that passed, and how many more may pass (None: all)."""

    passed: int = 0
    left: int | None = None


@dataclass
class Proxy:
    """Forwards 127.0.0.1:port to 127.0.0.1:target from a thread of its own."""

    target: int
    port: int = 0
    delay_s: float = 0.0
    requests: Way = field(default_factory=Way)
    replies: Way = field(default_factory=Way)

    def __enter__(self) -> "Proxy":
        self._loop = asyncio.new_event_loop()
        self._writers: set[asyncio.StreamWriter] = set()
        self._is_open, self._is_swallowing, self._will_refuse = True, False, False
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._server = self._do(asyncio.start_server(self._serve, "127.0.0.1", self.port))
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    def __exit__(self, *_: object) -> None:
        self._do(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    # ------------------------------------------------------------ faults

    def cut(self) -> None:
        """Reset all connections."""
        self._call(self._cut)

    def refuse(self) -> None:
        """Reset all connections, and each new one as soon as it is made."""
        self._is_open = False
        self.cut()

    def swallow(self) -> None:
        """Take bytes from both sides and pass none on."""
        self._is_swallowing = True

    def cut_after(self, *, requests: int | None = None, replies: int | None = None, refuse: bool = False) -> None:
        """Let so many more bytes of that direction pass, then cut once, or refuse until healed."""
        self._will_refuse = refuse
        self.requests.left, self.replies.left = requests, replies

    def heal(self) -> None:
        """Everything passes again. What was swallowed is lost, so its connections are reset."""
        was_swallowing, self._is_swallowing = self._is_swallowing, False
        self._is_open, self.delay_s = True, 0.0
        self.requests.left = self.replies.left = None
        if was_swallowing:
            self.cut()

    # ------------------------------------------------------------ the thread

    def _do(self, what: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(what, self._loop).result(30)

    def _call(self, what: Callable[[], None]) -> None:
        async def there() -> None:
            what()

        self._do(there())

    async def _end(self) -> None:
        self._server.close()
        self._cut()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _cut(self) -> None:
        for writer in list(self._writers):
            _reset(writer)
        self._writers.clear()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self._is_open:
            _reset(writer)
            return
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self.target)
        except OSError:
            _reset(writer)
            return
        pair = {writer, far_writer}
        self._writers |= pair
        both = (self._carry(reader, far_writer, self.requests), self._carry(far_reader, writer, self.replies))
        try:
            await asyncio.gather(*both)
        finally:
            self._writers -= pair
            for each in pair:
                each.close()

    async def _carry(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, way: Way) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while part := await source.read(CHUNK):
                if self.delay_s:
                    await asyncio.sleep(self.delay_s)
                if self._is_swallowing:
                    continue
                await self._pass_on(part, sink, way)
        sink.close()

    async def _pass_on(self, part: bytes, sink: asyncio.StreamWriter, way: Way) -> None:
        allowed = part if way.left is None else part[: way.left]
        way.passed += len(allowed)
        sink.write(allowed)
        await sink.drain()
        if way.left is None:
            return
        way.left -= len(allowed)
        if len(allowed) < len(part) or way.left == 0:
            await asyncio.sleep(0.01)  # a reset overtakes what the peer has not read yet
            self._is_open = not self._will_refuse
            self.requests.left = self.replies.left = None
            self._cut()


def _reset(writer: asyncio.StreamWriter) -> None:
    plug = writer.get_extra_info("socket")
    if plug is not None:
        with contextlib.suppress(OSError):
            plug.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    writer.transport.abort()
