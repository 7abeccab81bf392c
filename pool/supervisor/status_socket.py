"""The status socket: the parent's ear and mouth, inside its one loop. Nothing a client does makes the loop wait."""

import functools
import selectors
import socket
from pathlib import Path

from pool.clock import monotonic_now
from pool.errors import ConfigError
from pool.logs import log
from pool.supervisor.http import Answer, Request, Source, answer
from pool.supervisor.listening import UnixListener, tcp_listener
from pool.supervisor.peers import may_command, peer_uid
from pool.supervisor.status_client import Doing, StatusClient

MOST_CLIENTS = 64
MOST_ACCEPTS_A_TURN = 16
LOOK_FOR_FILE_EVERY_S = 5.0
# Sooner or later by this much, so that it is done in a turn that comes anyway.
LOOK_SLACK_S = 1.5
PAUSE_WITHOUT_DESCRIPTORS_S = 1.0


class StatusSocket:
    """Listens at `path` (and, read-only, at the TCP address `listen`) and answers from `source`.

    ConfigError, with the remedy, when a place cannot be used.
    """

    def __init__(self, path: Path, mode: int, listen: str, source: Source) -> None:
        self._path, self._mode, self._source = path, mode, source
        self._unix = UnixListener(path, mode)
        self._tcp = tcp_listener(listen) if listen else None
        self._clients: dict[StatusClient, int] = {}  # client → the events it is registered for
        self._look_at = monotonic_now() + LOOK_FOR_FILE_EVERY_S
        self._deaf_until: float | None = None
        self._selector: selectors.BaseSelector | None = None

    def register(self, selector: selectors.BaseSelector) -> None:
        """Begin to listen in the loop of `selector`."""
        self._selector = selector
        self._listen()

    def tick(self, now: float) -> float:
        """Hang up on slow clients, make a removed socket file again. Returns when it wants to be called next."""
        for client in [c for c in self._clients if c.deadline is not None and c.deadline <= now]:
            client.close()
        if now >= self._look_at - LOOK_SLACK_S:
            self._look_at = now + LOOK_FOR_FILE_EVERY_S
            self._stand_in_place()
        if self._deaf_until is not None and now >= self._deaf_until:
            self._deaf_until = None
            self._listen()
        return min([self._look_at + LOOK_SLACK_S, *self._deadlines()])

    def close(self) -> None:
        """Hang up on all, stop listening, remove the socket file if it is ours."""
        for client in list(self._clients):
            client.close()
        self._do_not_listen()
        self._unix.close()
        if self._tcp is not None:
            self._tcp.close()

    def _deadlines(self) -> list[float]:
        deadlines = [self._deaf_until, *(client.deadline for client in self._clients)]
        return [deadline for deadline in deadlines if deadline is not None]

    # ------------------------------------------------------------------ listening

    def _listeners(self) -> list[socket.socket]:
        return [self._unix.socket, *([self._tcp] if self._tcp is not None else [])]

    def _listen(self) -> None:
        if self._selector is None or self._deaf_until is not None:
            return
        registered = self._selector.get_map()
        for listener in self._listeners():
            if listener not in registered:
                self._selector.register(listener, selectors.EVENT_READ, functools.partial(self._accept_some, listener))

    def _do_not_listen(self) -> None:
        if self._selector is None:
            return
        for listener in self._listeners():
            if listener in self._selector.get_map():
                self._selector.unregister(listener)

    def _stand_in_place(self) -> None:
        if self._unix.is_in_place():
            return
        try:
            fresh = UnixListener(self._path, self._mode)
        except ConfigError as error:
            log.limited("socket file", "the status socket's file is gone", every_s=60.0, error=error)
            return
        self._do_not_listen()
        self._unix.close()
        self._unix = fresh
        self._listen()
        log.warning("the status socket's file was gone and was made again", path=self._path)

    def _accept_some(self, listener: socket.socket, _mask: int) -> None:
        for _ in range(MOST_ACCEPTS_A_TURN):
            try:
                connection, _ = listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                # No descriptor or memory left. The listener stays readable: look away for a while, or the loop spins.
                log.limited("accept", "cannot accept status clients", every_s=60.0, error=error)
                self._rest()
                return
            self._welcome(connection)

    def _rest(self) -> None:
        self._evict_oldest_silent()
        self._do_not_listen()
        self._deaf_until = monotonic_now() + PAUSE_WITHOUT_DESCRIPTORS_S

    # ------------------------------------------------------------------ clients

    def _welcome(self, connection: socket.socket) -> None:
        if len(self._clients) >= MOST_CLIENTS and not self._evict_oldest_silent():
            connection.close()
            return
        connection.setblocking(False)
        client = StatusClient(connection, may_command(peer_uid(connection)), self._serve, self._forget)
        self._clients[client] = 0
        self._proceed(client)

    def _serve(self, client: StatusClient, request: Request) -> Answer | None:
        def later(answer: Answer) -> None:
            client.answer_later(answer)
            self._follow(client)

        return answer(request, self._source, later)

    def _evict_oldest_silent(self) -> bool:
        """Clients stand in the order of their coming; one that waits for a command's outcome is not silent."""
        silent = next((client for client in self._clients if client.doing is not Doing.WAITING), None)
        if silent is not None:
            silent.close()
        return silent is not None

    def _proceed(self, client: StatusClient, _mask: int = 0) -> None:
        client.proceed()
        self._follow(client)

    def _follow(self, client: StatusClient) -> None:
        """Register the client for what it waits for now."""
        if client.doing is Doing.CLOSED or self._selector is None:
            return
        events = selectors.EVENT_WRITE if client.doing is Doing.WRITING else selectors.EVENT_READ
        was = self._clients[client]
        self._clients[client] = events
        if was == 0:
            self._selector.register(client.socket, events, functools.partial(self._proceed, client))
        elif was != events:
            self._selector.modify(client.socket, events, functools.partial(self._proceed, client))

    def _forget(self, client: StatusClient) -> None:
        """Before its descriptor is closed, so that the selector never sees the number of another one."""
        if self._clients.pop(client, 0) and self._selector is not None:
            self._selector.unregister(client.socket)
