"""One backend object's line to its server: opened when needed, dropped when in doubt, never shared with a fork."""

import os
from collections.abc import Callable, Sequence
from typing import Any

from pool.backends.moving import said_by_mark
from pool.backends.redis.connection import Argument, Connection, open_sentinel, open_tcp, open_unix, pack
from pool.backends.redis.scripts import Step, step
from pool.backends.redis.trouble import ConnectionBroken, ServerError, as_ours
from pool.backends.redis.urls import Address
from pool.clock import monotonic_now
from pool.errors import BackendUnavailable, StoreMoved

ANSWER_SECONDS = 1.8  # a caller hears of an absent store within 2 s
LONGEST_ANSWER_SECONDS = 5.0
MAX_REDIRECTS = 3
_WELCOME_AGAIN_S = 30.0  # a newer jobpool may have changed the store meanwhile
# Errors after which another server may be the right one: the connection is dropped, the next call looks again.
_MOVED_AWAY = ("READONLY", "MASTERDOWN", "CLUSTERDOWN", "LOADING", "UNBLOCKED")


class Session:
    """Runs commands on the primary. Raises pool.errors only."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self.answer_seconds = min(address.answer_seconds or ANSWER_SECONDS, LONGEST_ANSWER_SECONDS)
        self._patience = self.answer_seconds  # of the call under way
        self._connection: Connection | None = None
        self._node: tuple[str, int] | None = None  # the cluster node that owns our slot, once known
        self.welcome: Callable[[Connection], None] | None = None  # looks at the store first, on each new connection
        self._welcomed_at = 0.0
        self.was_sent_twice = False  # the last call: its first copy may have been obeyed, its answer was lost

    def run(self, name: str, keys: tuple[bytes, ...], args: Sequence[Argument] = ()) -> Any:
        """A step of scripts/. Safe to repeat, so a connection found closed is replaced and the step sent again once."""
        packed = pack(len(keys), *keys, *args)
        count, _, rest = packed.partition(b"\r\n")
        answer = self.run_packed(step(name), int(count[1:]), rest)
        if isinstance(answer, list) and answer and answer[0] == b"moving":
            raise StoreMoved(self.address.masked, **said_by_mark(answer[1].decode()))
        return answer

    def run_packed(self, script: Step, count: int, rest: bytes) -> Any:
        """`run` with all words after the script's name packed already: how many, and their bytes."""
        try:
            return self._ask(b"*%d\r\n%b%b" % (count + 2, script.by_digest, rest))
        except ServerError as error:
            if error.word != "NOSCRIPT":
                raise self._translated(error) from error
        try:
            return self._ask(b"*%d\r\n%b%b" % (count + 2, script.by_text, rest))
        except ServerError as error:
            raise self._translated(error) from error

    def run_long(self, name: str, keys: tuple[bytes, ...], args: Sequence[Argument]) -> Any:
        """`run` for a step that has much to do: it is given the longest answer time."""
        self._patience = LONGEST_ANSWER_SECONDS
        try:
            return self.run(name, keys, args)
        finally:
            self._patience = self.answer_seconds

    def command(self, *words: Argument) -> Any:
        """A plain command, repeated like a step."""
        try:
            return self._ask(pack(*words))
        except ServerError as error:
            raise self._translated(error) from error

    def once(self, *words: Argument) -> Any:
        """A command on the connection of the call before, never on a new one (WAITAOF counts that one's writes)."""
        if self._connection is None or self._connection.pid != os.getpid():
            raise BackendUnavailable(self.address.masked, "the connection was lost")
        try:
            return self._connection.ask(pack(*words))
        except ServerError as error:
            raise self._translated(error) from error
        except ConnectionBroken as broken:
            raise self._given_up(broken) from broken

    def connection(self) -> Connection:
        """The open connection of this process; ConnectionBroken or ServerError when there is none to be had."""
        current = self._connection
        if current is not None and current.pid == os.getpid():
            if current.answer_seconds != self._patience:
                current.set_answer_seconds(self._patience)
            if monotonic_now() - self._welcomed_at > _WELCOME_AGAIN_S:
                self._welcome(current)
            return current
        self.close()
        self._connection = opened = self._open()
        self._welcome(opened)
        return opened

    def _welcome(self, connection: Connection) -> None:
        if self.welcome is None:
            return
        try:
            self.welcome(connection)
        except BaseException:
            self.close()
            raise
        self._welcomed_at = monotonic_now()

    def another_connection(self) -> Connection:
        """One more to the same server, for the caller alone; ConnectionBroken or ServerError when there is none to be had."""
        return self._open()

    def close(self) -> None:
        """Drop the connection (in a forked child: only our descriptor of it)."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def translated(self, call: Callable[[], Any]) -> Any:
        """`call` at work on the connection, its troubles in our words."""
        try:
            return call()
        except ServerError as error:
            raise self._translated(error) from error
        except ConnectionBroken as broken:
            raise self._given_up(broken) from broken

    # ---------------------------------------------------------------- asking

    def _ask(self, packed: bytes) -> Any:
        for _ in range(MAX_REDIRECTS):
            try:
                self.was_sent_twice = False
                try:
                    return self.connection().ask(packed)
                except ConnectionBroken as broken:
                    return self._ask_again(packed, broken)
            except ServerError as error:
                if error.word != "MOVED" or self.address.kind != "cluster":
                    raise
                self._follow(error)
        raise BackendUnavailable(self.address.masked, "its cluster nodes send us in circles")

    def _ask_again(self, packed: bytes, broken: ConnectionBroken) -> Any:
        """A server that restarted or dropped us is met by one fresh connection; a silent one is not asked again."""
        self.close()
        if broken.timed_out or not broken.was_sent:
            raise self._given_up(broken) from broken
        self.was_sent_twice = True
        try:
            return self.connection().ask(packed)
        except ConnectionBroken as again:
            again.was_sent = True  # the first time, if not now
            raise self._given_up(again) from again

    def freshen(self) -> None:
        """Drop a connection that the server has closed meanwhile, so that what is sent next is surely not lost in it."""
        current = self._connection
        if current is not None and current.pid == os.getpid() and not current.is_quiet():
            self.close()

    def _given_up(self, broken: ConnectionBroken) -> BackendUnavailable:
        self.close()
        self._node = None
        problem = BackendUnavailable(self.address.masked, broken.why)
        problem.__cause__ = broken
        return problem

    def _translated(self, error: ServerError) -> BackendUnavailable:
        if error.word in _MOVED_AWAY:
            self.close()
            self._node = None
        return as_ours(self.address.masked, error)

    def _follow(self, moved: ServerError) -> None:
        """MOVED slot host:port: nothing was done there; the named node is the right one."""
        host, _, port = moved.text.split()[2].rpartition(":")
        known = self._node[0] if self._node else self.address.hosts[0][0]
        self._node = (host or known, int(port))
        self.close()

    # ---------------------------------------------------------------- opening

    def _open(self) -> Connection:
        address = self.address
        if address.kind == "unix":
            return open_unix(address, self.answer_seconds)
        if address.kind == "sentinel":
            return self._open_primary()
        if self._node is not None:
            return open_tcp(address, *self._node, self.answer_seconds)
        connection: Connection = self._first_of(lambda host, port, left: open_tcp(address, host, port, left))
        return connection

    def _open_primary(self) -> Connection:
        host, port = self._first_of(self._ask_sentinel)
        connection = open_tcp(self.address, host, port, self.answer_seconds)
        role = connection.ask(pack("ROLE"))
        if role[0] != b"master":
            connection.close()
            raise ConnectionBroken(f"{host}:{port} is not the primary (yet); a failover is under way")
        return connection

    def _ask_sentinel(self, host: str, port: int, left: float) -> tuple[str, int]:
        connection = open_sentinel(self.address, host, port, left)
        try:
            found = connection.ask(pack("SENTINEL", "GET-MASTER-ADDR-BY-NAME", self.address.service))
        finally:
            connection.close()
        if not found:
            raise ConnectionBroken(f"sentinel {host}:{port} knows no service {self.address.service!r}")
        return found[0].decode(), int(found[1])

    def _first_of(self, attempt: Callable[[str, int, float], Any]) -> Any:
        """The answer of the first host that gives one, all within one answer time."""
        hosts = self.address.hosts
        problem: Exception = ConnectionBroken("no host is named")
        for host, port in hosts:
            try:
                return attempt(host, port, self.answer_seconds / len(hosts))
            except (ConnectionBroken, ServerError) as failed:
                problem = failed
        raise problem
