"""The HTTP API: raw bytes and bodies that are JSON to some and not to others. Never a 500, never a server that is gone."""

import contextlib
import random
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.fuzz.nasty import odd_json, spoilt, text
from tests.fuzz.runner import Attempt
from tests.web.serving import Api, token_of

JOB = "01890000-0000-7000-8000-000000000000"
BODIES: dict[str, dict[str, Any]] = {
    "/jobs": {"type": "thumb", "payload": {"a": 1}, "queue": "fuzz"},
    "/jobs/batch": {"jobs": [{"type": "thumb", "queue": "fuzz"}]},
    "/jobs/claim": {"queues": ["fuzz"], "wait": 0},
    f"/jobs/{JOB}/complete": {"claim_token": "x", "result": {"a": 1}},
    f"/jobs/{JOB}/fail": {"claim_token": "x", "error": "it broke"},
    f"/jobs/{JOB}/heartbeat": {"claim_token": "x", "progress": 0.5},
    f"/jobs/{JOB}/cancel": {},
    f"/jobs/{JOB}/retry": {},
}
READS = (
    "/jobs",
    "/jobs?status=failed&limit=5",
    f"/jobs/{JOB}",
    "/types",
    "/admin/queues",
    "/healthz",
    "/openapi.json",
    "/",
    "/jobs/claim",
)
HEADERS = (
    b"Content-Length: 5", b"Content-Length: -1", b"Transfer-Encoding: chunked", b"Expect: 100-continue", b"Idempotency-Key: \xff\xfe",
    b"Idempotency-Key: a", b"Content-Type: text/plain", b"Content-Encoding: gzip", b"Cookie: " + b"a=b; " * 500, b"X: " + b"y" * 40_000,
    b"Accept: */*;q=x", b"Authorization: Basic eA==", b"If-None-Match: *", b"Range: bytes=0-", b"Host: a\r\nHost: b", b"No colon",
)  # fmt: skip
CALLERS = ("boss", "php", "root", "narrow", "nobody")
PATIENCE_S = 30.0


@contextlib.contextmanager
def ground(folder: Path) -> Iterator[Attempt]:
    server = Api(web="long_poll = 0.2")
    try:
        server.start()
        yield lambda rng: attempt(server, rng)
        assert "failed by a fault of ours" not in server.log_text(), server.log_text()[-3000:]
        assert "Traceback" not in server.log_text(), server.log_text()[-3000:]
    finally:
        server.close()


def attempt(server: Api, rng: random.Random) -> None:
    raw = _request(rng)
    answer = _told(server, raw, rng)
    assert not answer.startswith(b"HTTP/1.1 5"), f"{raw[:600]!r}\nwas answered\n{answer[:1500]!r}"
    assert not answer or answer.startswith(b"HTTP/1.1 "), f"{raw[:600]!r}\nwas answered\n{answer[:200]!r}"
    if rng.random() < 0.05:
        assert server.stranger.get("/healthz").status_code == 200


def _told(server: Api, raw: bytes, rng: random.Random) -> bytes:
    """The first bytes of the answer; none when the server hangs up, or waits for more than was sent."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_S) as line, contextlib.suppress(OSError):
        for piece in (raw[: len(raw) // 3], raw[len(raw) // 3 :]) if rng.random() < 0.2 else (raw,):
            line.sendall(piece)
        line.shutdown(socket.SHUT_WR)
        return line.recv(65_536)
    return b""


# ---------------------------------------------------------------- requests


def _request(rng: random.Random) -> bytes:
    if rng.random() < 0.05:
        return rng.randbytes(rng.randrange(1, 2000))
    target, body, method = _target(rng), b"", b"GET"
    if rng.random() < 0.7:
        path, usual = rng.choice(sorted(BODIES.items()))
        target, body, method = path, odd_json(rng, usual), b"POST"
    lines = [b"%s %s HTTP/1.1" % (_method(method, rng), _path(target, rng)), b"Host: x", b"Connection: close"]
    lines.append(b"Authorization: Bearer " + token_of(rng.choice(CALLERS)).encode())
    if method == b"POST":
        lines += [b"Content-Type: application/json", b"Content-Length: %d" % len(body)]
    if rng.random() < 0.2:
        lines += rng.choices(HEADERS, k=rng.randrange(1, 4))
    whole = b"\r\n".join(lines) + b"\r\n\r\n" + body
    return spoilt(rng, whole) if rng.random() < 0.15 else whole


def _target(rng: random.Random) -> str:
    path = rng.choice(READS)
    if rng.random() < 0.4:
        path += (
            ("&" if "?" in path else "?")
            + rng.choice(("status", "limit", "after", "queue", "text", "wait", "x"))
            + "="
            + text(rng)
        )
    return path


def _method(usual: bytes, rng: random.Random) -> bytes:
    return (
        usual
        if rng.random() < 0.9
        else rng.choice((b"PUT", b"DELETE", b"PATCH", b"HEAD", b"OPTIONS", b"TRACE", b"get", b"X" * 300))
    )


def _path(target: str, rng: random.Random) -> bytes:
    """As it is, percent-encoded badly, or with bytes that no path has."""
    raw = target.encode("utf-8", "surrogatepass").replace(b" ", b"%20").replace(b"\n", b"%0A").replace(b"\0", b"%00")
    match rng.randrange(12):
        case 0:
            return raw.replace(
                JOB.encode(),
                rng.choice((b"%ff", b"%", b"..%2f..%2f", b"x" * 3000, b"\xff", b"%00", b"claim", b"batch")),
            )
        case 1:
            return raw + rng.choice((b"#a", b"?", b"//", b"/..", b";a=b", b"%zz"))
        case _:
            return raw
