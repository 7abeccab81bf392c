"""One socket to one server: packed commands out, replies in, every wait bounded.

Not redis-py's client: a worker's hot path is one sendall and one recv, and importing redis costs 0.2 s per process.
The kernel's own timeouts (SO_RCVTIMEO) are used because a Python timeout costs one more system call per call.
"""

import ipaddress
import os
import select
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterable
from typing import Any

import hiredis

from pool.backends.redis.lookout import Lookout
from pool.backends.redis.trouble import ConnectionBroken, ServerError
from pool.backends.redis.urls import Address
from pool.clock import monotonic_now

CHUNK_BYTES = 65536
Argument = bytes | str | int
_ErrorReply = hiredis.ReplyError


class Connection:
    """An open, authenticated connection that belongs to the process that opened it."""

    def __init__(self, sock: socket.socket, answer_seconds: float) -> None:
        self._sock = sock
        self._reader = hiredis.Reader()
        self._heard = bytearray(CHUNK_BYTES)  # used again: making a new one takes longer than all else here
        self._receive = sock.recv_into if isinstance(sock, ssl.SSLSocket) else Lookout(sock).receive
        self._glance: select.poll | None = None
        self.answer_seconds = answer_seconds
        self.pid = os.getpid()
        self._set_kernel_timeout(answer_seconds)

    def ask(self, packed: bytes) -> Any:
        """Send one packed command and read its reply; ServerError for an error reply, ConnectionBroken for the rest."""
        try:  # as `send`, which would be one call more for each job
            self._sock.sendall(packed)
        except OSError as problem:
            raise self._broken(problem, "no room to send for") from problem
        return self.read()

    def send(self, packed: bytes) -> None:
        try:
            self._sock.sendall(packed)
        except OSError as problem:
            raise self._broken(problem, "no room to send for") from problem

    def read(self) -> Any:
        """The next reply, within the answer time."""
        reply = self._reader.gets()
        while reply is False:
            try:
                size = self._receive(self._heard)
            except OSError as problem:
                raise self._broken(problem, "no answer within") from problem
            if not size:
                raise ConnectionBroken("the server closed the connection", was_sent=True)
            self._reader.feed(self._heard, 0, size)  # type: ignore[arg-type]  # its stub leaves out what it takes
            reply = self._reader.gets()
        if isinstance(reply, _ErrorReply):
            raise ServerError(str(reply))
        return reply

    def _broken(self, problem: OSError, in_vain: str) -> ConnectionBroken:
        """What is said when the socket raises this; `in_vain`: when it has only waited too long."""
        if isinstance(problem, BlockingIOError | ssl.SSLWantReadError | ssl.SSLWantWriteError):
            return ConnectionBroken(f"{in_vain} {self.answer_seconds:g} s", was_sent=True, timed_out=True)
        return ConnectionBroken(_words(problem), was_sent=True)

    def is_readable(self, seconds: float, interrupt_fd: int | None = None) -> bool | None:
        """Wait for a reply: True there is one, False time is over, None `interrupt_fd` is readable first."""
        if self._reader.has_data() or self._pending():
            return True
        poll = select.poll()
        poll.register(self._sock.fileno(), select.POLLIN)
        if interrupt_fd is not None:
            poll.register(interrupt_fd, select.POLLIN)
        ready = {fd for fd, _ in poll.poll(max(0.0, seconds) * 1000)}
        if self._sock.fileno() in ready:
            return True
        return None if ready else False

    def fileno(self) -> int:
        return self._sock.fileno()

    def is_quiet(self) -> bool:
        """Whether nothing is to be read: an idle connection that is readable has been closed, or is out of step."""
        if self._glance is None:
            self._glance = select.poll()
            self._glance.register(self._sock.fileno(), select.POLLIN)
        return not self._glance.poll(0)

    def close(self) -> None:
        """Close our descriptor; in a forked child this leaves the parent's connection as it is."""
        if isinstance(self._sock, ssl.SSLSocket) and self.pid != os.getpid():
            os.close(self._sock.detach())  # no TLS goodbye on the parent's behalf
            return
        self._sock.close()

    def __del__(self) -> None:
        self.close()

    def _pending(self) -> bool:
        return isinstance(self._sock, ssl.SSLSocket) and self._sock.pending() > 0

    def set_answer_seconds(self, seconds: float) -> None:
        """How long an answer may take from now on."""
        self.answer_seconds = seconds
        self._set_kernel_timeout(seconds)

    def _set_kernel_timeout(self, seconds: float) -> None:
        self._sock.settimeout(None)
        timeval = struct.pack("ll", int(seconds), int(seconds % 1 * 1_000_000) or 1)
        self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, timeval)
        self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, timeval)


def pack(*command: Argument) -> bytes:
    """A command as bytes for the wire."""
    return bytes(hiredis.pack_command(command))  # type: ignore[arg-type]  # its stub means a tuple of any length


def pack_words(words: Iterable[Argument]) -> bytes:
    """Words without the count before them: a piece of a command."""
    return pack(*words).partition(b"\r\n")[2]


# ---------------------------------------------------------------- opening


def open_unix(address: Address, answer_seconds: float) -> Connection:
    def connect(left: float) -> socket.socket:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        return _connected(sock, address.path, left)

    return _open(connect, address, answer_seconds, address.username, address.password)


def open_tcp(address: Address, host: str, port: int, answer_seconds: float) -> Connection:
    """A connection to a data server: greeted, signed in, its database selected."""
    return _open(_dialler(address, host, port), address, answer_seconds, address.username, address.password)


def open_sentinel(address: Address, host: str, port: int, answer_seconds: float) -> Connection:
    """A connection to a sentinel, which has a password of its own and no databases."""
    user, secret = address.sentinel_username, address.sentinel_password
    return _open(_dialler(address, host, port), address, answer_seconds, user, secret, select_db=False)


def _dialler(address: Address, host: str, port: int) -> Callable[[float], socket.socket]:
    def connect(left: float) -> socket.socket:
        end = monotonic_now() + left
        family, target = _resolve(host, port, left)
        sock = _connected(socket.socket(family, socket.SOCK_STREAM), target, end - monotonic_now())
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        return _protected(sock, address.tls, host, end - monotonic_now()) if address.tls else sock

    return connect


def _open(
    connect: Callable[[float], socket.socket],
    address: Address,
    answer_seconds: float,
    username: str,
    password: str,
    select_db: bool = True,
) -> Connection:
    connection = Connection(connect(answer_seconds), answer_seconds)
    try:
        if password:
            who = (username, password) if username else (password,)
            connection.ask(pack("AUTH", *who))
        if select_db and address.db:
            connection.ask(pack("SELECT", address.db))
    except (ServerError, ConnectionBroken) as problem:
        connection.close()
        if isinstance(problem, ConnectionBroken):
            raise ConnectionBroken(problem.why, timed_out=problem.timed_out) from problem
        raise
    return connection


def _connected(sock: socket.socket, target: Any, seconds: float) -> socket.socket:
    sock.settimeout(max(0.05, seconds))
    try:
        sock.connect(target)
    except TimeoutError as problem:
        sock.close()
        raise ConnectionBroken(f"no connection within {seconds:.1f} s", timed_out=True) from problem
    except OSError as problem:
        sock.close()
        raise ConnectionBroken(_words(problem)) from problem
    return sock


def _protected(sock: socket.socket, context: ssl.SSLContext, host: str, seconds: float) -> socket.socket:
    sock.settimeout(max(0.05, seconds))
    try:
        return context.wrap_socket(sock, server_hostname=host)
    except ssl.SSLCertVerificationError as problem:
        sock.close()
        raise ConnectionBroken(
            f"its TLS certificate is not trusted ({problem.verify_message}); name the CA with ?ssl_ca_certs=/path/ca.crt"
        ) from problem
    except OSError as problem:
        sock.close()
        raise ConnectionBroken(f"TLS cannot be agreed: {_words(problem)}") from problem


def _resolve(host: str, port: int, seconds: float) -> tuple[int, Any]:
    """Family and address of the host. A resolver may hang for many seconds, so names are asked for in a thread."""
    try:
        number = ipaddress.ip_address(host)
        return (socket.AF_INET if number.version == 4 else socket.AF_INET6), (host, port)
    except ValueError:
        pass
    found: list[Any] = []

    def ask() -> None:
        try:
            found.append(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
        except (OSError, UnicodeError) as problem:
            found.append(problem)

    asking = threading.Thread(target=ask, name="resolver", daemon=True)
    asking.start()
    asking.join(max(0.05, seconds))
    if not found:
        raise ConnectionBroken(f"the name {host!r} was not resolved within {seconds:.1f} s", timed_out=True)
    if isinstance(found[0], Exception):
        raise ConnectionBroken(f"the host name {host!r} does not resolve") from found[0]
    family, _, _, _, target = found[0][0]
    return family, target


def _words(problem: OSError) -> str:
    return (problem.strerror or str(problem) or type(problem).__name__).lower()
