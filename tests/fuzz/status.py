"""The status socket: whatever is sent there, in whatever pieces, the loop turns and answers the next caller."""

import contextlib
import random
import socket
from collections.abc import Iterator
from pathlib import Path

from pool.cli.control import ask
from tests.fuzz.nasty import spoilt
from tests.fuzz.runner import Attempt
from tests.helpers.desks import Desk, desk

METHODS = (b"GET", b"POST", b"HEAD", b"OPTIONS", b"PUT", b"FETCH", b"get", b"", b"\xff", b"G" * 9000)
PATHS = (
    b"/status",
    b"/healthz",
    b"/metrics",
    b"/scale",
    b"/stop",
    b"/" + b"x" * 20_000,
    b"*",
    b"http://a/status",
    b"/\x00",
    b"/%ff",
)
HEADERS = (
    b"Host: x", b"Content-Length: 5", b"Content-Length: -1", b"Content-Length: 99999999999999999999", b"Content-Length: 1, 2",
    b"Transfer-Encoding: chunked", b"Transfer-Encoding: gzip, chunked", b"Expect: 100-continue", b"Connection: keep-alive",
    b"Upgrade: websocket", b"X: " + b"y" * 70_000, b"No colon", b": empty", b"X: \x00", b" folded: x", b"Host: a\r\nHost: b",
)  # fmt: skip
BODIES = (
    b"",
    b"{}",
    b'{"count": 3}',
    b"5\r\nhello\r\n0\r\n\r\n",
    b"ffffffffffffffff\r\n",
    b"[" * 100_000,
    b"\xff" * 100,
    b"x" * 70_000,
)


def request(rng: random.Random) -> bytes:
    head = b"%s %s %s" % (
        rng.choice(METHODS),
        rng.choice(PATHS),
        rng.choice((b"HTTP/1.1", b"HTTP/1.0", b"HTTP/9", b"")),
    )
    lines = [head, *rng.choices(HEADERS, k=rng.randrange(5))]
    whole = b"\r\n".join(lines) + b"\r\n\r\n" + rng.choice(BODIES)
    if rng.random() < 0.3:
        whole += request(rng)  # pipelined
    return spoilt(rng, whole) if rng.random() < 0.5 else whole


@contextlib.contextmanager
def ground(folder: Path) -> Iterator[Attempt]:
    with desk(folder, listen="127.0.0.1:0") as running:
        yield lambda rng: attempt(running, rng)


def attempt(running: Desk, rng: random.Random) -> None:
    """Some callers at once, of which none behaves; then one that does."""
    with contextlib.ExitStack() as stack:
        for _ in range(rng.choice((1, 1, 2, 80))):
            caller = stack.enter_context(_connected(running, rng))
            with contextlib.suppress(OSError):
                _speak(caller, rng)
    _is_alive(running)


def _connected(running: Desk, rng: random.Random) -> socket.socket:
    if rng.random() < 0.3:
        return socket.create_connection(("127.0.0.1", running.tcp_port), timeout=5)
    caller = socket.socket(socket.AF_UNIX)
    caller.settimeout(5)
    caller.connect(str(running.path))
    return caller


def _speak(caller: socket.socket, rng: random.Random) -> None:
    raw = request(rng) if rng.random() < 0.9 else rng.randbytes(rng.randrange(3000))
    caller.settimeout(0.5)
    for piece in _pieces(raw, rng):
        caller.sendall(piece)
    match rng.randrange(4):
        case 0:
            caller.shutdown(socket.SHUT_WR)
        case 1:
            caller.settimeout(0.01)
            answer = caller.recv(65_536)
            assert not answer or answer.startswith(b"HTTP/1.1 "), answer[:80]
            assert not answer.startswith(b"HTTP/1.1 500"), (raw[:300], answer)


def _pieces(raw: bytes, rng: random.Random) -> list[bytes]:
    cuts = sorted(rng.randrange(len(raw) + 1) for _ in range(rng.choice((0, 0, 1, 5))))
    return [raw[low:high] for low, high in zip([0, *cuts], [*cuts, len(raw)], strict=True) if low < high]


def _is_alive(running: Desk) -> None:
    assert ask(running.path, "GET", "/healthz") == (200, {"ok": True, "state": "ready"})
