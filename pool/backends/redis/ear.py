"""How a keeper hears of a sooner time: it sleeps on a second connection, blocked on a bell of its own."""

import os
from contextlib import suppress

from pool.backends.contract import Want
from pool.backends.redis.connection import Connection, pack
from pool.backends.redis.keys import Keys, class_of
from pool.backends.redis.session import Session
from pool.backends.redis.trouble import ConnectionBroken, ServerError
from pool.clock import monotonic_now
from pool.errors import BackendUnavailable

KEEPER = class_of(Want(queues=()))  # as in scripts/parts/places.lua
LISTEN_AGAIN_S = 3600.0  # classes that nobody names for a day are forgotten


class Ear:
    """Opened by the first `listen`. Whatever goes wrong with it only makes the keeper hear of times a second later."""

    def __init__(self, keys: Keys) -> None:
        self._keys = keys
        self._connection: Connection | None = None
        self._known_until = 0.0

    def listen(self, session: Session) -> None:
        """Called when the server has just answered, so that an absent one is not waited for twice."""
        if self._connection is not None and self._connection.pid == os.getpid():
            return
        with suppress(ConnectionBroken, ServerError, BackendUnavailable):
            if monotonic_now() > self._known_until:
                session.run("listen", self._keys.fixed, (KEEPER,))
                self._known_until = monotonic_now() + LISTEN_AGAIN_S
            fresh = session.another_connection()
            fresh.send(pack("BLPOP", self._keys.bell(KEEPER), 0))
            self._connection = fresh

    def fd(self) -> int | None:
        """Readable when the bell was rung, or the connection is gone."""
        return None if self._connection is None else self._connection.fileno()

    def quiet(self) -> None:
        """Take what was heard; `listen` begins anew."""
        connection = self._connection
        if connection is None or connection.pid != os.getpid() or connection.is_quiet():
            return
        try:
            connection.read()
            connection.send(pack("BLPOP", self._keys.bell(KEEPER), 0))
        except (ConnectionBroken, ServerError):
            self.close()

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
