"""The command line's end of the status socket. Standard library only, so that `jobpool health` starts fast."""

import json
import os
import socket
import struct
from typing import Any

from pool.clock import monotonic_now
from pool.errors import WorldError


class PoolUnreachable(WorldError):
    """No pool could be asked; the command line exits with 69."""


class NoSocket(PoolUnreachable):
    """There is no socket at the path: no pool runs here, or it has another runtime directory."""

    def __init__(self, path: str) -> None:
        super().__init__(
            f"no pool is running: there is no socket at {path}. Start one with `jobpool start`, or name its configuration with --config"
        )


class Refused(PoolUnreachable):
    """A socket file is there, but nobody listens."""

    def __init__(self, path: str) -> None:
        super().__init__(f"the pool of {path} is gone (it left its socket behind); start it again with `jobpool start`")


class NotPermitted(PoolUnreachable):
    """The file's mode keeps us out."""

    def __init__(self, path: str) -> None:
        super().__init__(f"not permitted to ask the pool at {path}: run this as the pool's user or group, or as root")


class NoAnswer(PoolUnreachable):
    """The pool accepted the question (or could not even do that) and did not answer in time."""

    def __init__(self, path: str, waited_s: float) -> None:
        super().__init__(f"the pool at {path} did not answer within {waited_s:g} s: it is stopped or overloaded")


class BadAnswer(PoolUnreachable):
    """What answered does not speak our language, or hung up in the middle."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"{path} gave no usable answer: {why}")


def ask(
    socket_path: str | os.PathLike[str],
    method: str,
    path: str,
    body: dict[str, Any] | None = None,
    timeout: float | None = 5.0,
) -> tuple[int, Any]:
    """The HTTP status and the document (text for what is not JSON). `timeout` seconds in all; None waits for ever.

    A subclass of PoolUnreachable when there is no answer; an answer with an error status is returned, not raised.
    """
    where = os.fspath(socket_path)
    deadline = None if timeout is None else monotonic_now() + timeout
    try:
        return _parsed(where, _exchange(where, _request(method, path, body), deadline))
    except (TimeoutError, BlockingIOError):
        raise NoAnswer(where, timeout or 0.0) from None
    except OSError as error:
        raise _in_words(where, error) from None


def _request(method: str, path: str, body: dict[str, Any] | None) -> bytes:
    content = b"" if body is None else json.dumps(body).encode()
    head = f"{method} {path} HTTP/1.1\r\nHost: jobpool\r\nConnection: close\r\nContent-Length: {len(content)}\r\n\r\n"
    return head.encode() + content


def _exchange(where: str, request: bytes, deadline: float | None) -> bytes:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as pool:
        _connect(pool, where, deadline)
        pool.sendall(request)
        parts = []
        while part := _received(pool, deadline):
            parts.append(part)
    return b"".join(parts)


def _connect(pool: socket.socket, where: str, deadline: float | None) -> None:
    """In blocking mode with the kernel's own timeout: in the other modes a full backlog is an error at once (EAGAIN)."""
    left = _left(deadline)
    if left is not None:
        pool.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("@ll", int(left), int(left % 1 * 1_000_000)))
    pool.connect(where)
    pool.settimeout(left)


def _received(pool: socket.socket, deadline: float | None) -> bytes:
    pool.settimeout(_left(deadline))
    return pool.recv(65536)


def _left(deadline: float | None) -> float | None:
    if deadline is None:
        return None
    left = deadline - monotonic_now()
    if left <= 0:
        raise TimeoutError
    return left


def _parsed(where: str, answer: bytes) -> tuple[int, Any]:
    head, end, content = answer.partition(b"\r\n\r\n")
    status_line, *header_lines = head.decode("latin-1").split("\r\n")
    words = status_line.split(" ")
    if not end or len(words) < 2 or not words[0].startswith("HTTP/1.") or not words[1].isdigit():
        raise BadAnswer(where, "it hung up before the end" if not end else "not HTTP")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in header_lines)}
    if len(content) < int(headers.get("content-length", "0")):
        raise BadAnswer(where, "it hung up before the end")
    if "json" not in headers.get("content-type", ""):
        return int(words[1]), content.decode("utf-8", "replace")
    return int(words[1]), json.loads(content)


def _in_words(where: str, error: OSError) -> PoolUnreachable:
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return NoSocket(where)
    if isinstance(error, ConnectionRefusedError):
        return Refused(where)
    if isinstance(error, PermissionError):
        return NotPermitted(where)
    return BadAnswer(where, error.strerror or str(error))
