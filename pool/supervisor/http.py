"""What the status socket answers: one request in, one answer out. Knows paths and rights, no sockets."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Protocol

from pool.logs import log

Document = dict[str, object]
Reply = Callable[[int, Document], None]

READ_PATHS = ("/healthz", "/readyz", "/status", "/metrics")
VERBS = ("reload", "scale", "drain", "undrain", "restart", "stop", "stack", "kill")
_METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_NOT_ALLOWED = "only the pool's own user and root may send commands, over the Unix socket"


class Source(Protocol):
    """Where answers come from. All of it is called in the parent's loop and returns at once."""

    def state(self) -> str:
        """starting, ready, degraded, draining, reloading or stopping."""
        ...

    def status(self) -> Document:
        """The whole /status document."""
        ...

    def unready(self) -> list[str]:
        """Why the pool is not ready, in sentences; empty when it is."""
        ...

    def metrics(self) -> bytes:
        """The Prometheus text."""
        ...

    def command(self, verb: str, options: Document, reply: Reply) -> None:
        """Do a verb; `reply` is called once, now or turns later."""
        ...


@dataclass(frozen=True, slots=True)
class Request:
    """`may_command`: the caller is the pool's own user or root."""

    method: str
    path: str
    body: bytes = b""
    may_command: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    body: bytes
    content_type: str = "application/json"
    headers: dict[str, str] = field(default_factory=dict)


def answer(request: Request, source: Source, later: Callable[[Answer], None]) -> Answer | None:
    """The answer to a request; None when `later` will get it (or has got it already). Never raises."""
    try:
        return _answer(request, source, later)
    except Exception as error:  # a fault of ours in one answer must not take the parent down
        log.limited("status answer", "cannot answer a status request", level="ERROR", path=request.path, error=error)
        return problem(500, f"{type(error).__name__} while answering; see the log")


def _answer(request: Request, source: Source, later: Callable[[Answer], None]) -> Answer | None:
    verb = request.path.removeprefix("/")
    if request.path in READ_PATHS:
        if request.method not in ("GET", "HEAD"):
            return problem(405, f"{request.path} is read with GET", allow="GET, HEAD")
        return _read(request.path, source)
    if verb not in VERBS:
        return problem(404, f"nothing is at {request.path[:200]}; there are {', '.join(READ_PATHS)}")
    if request.method != "POST":
        return problem(405, f"{request.path} is a command: use POST", allow="POST")
    if not request.may_command:
        return problem(403, _NOT_ALLOWED)
    return _command(verb, request.body, source, later)


def _read(path: str, source: Source) -> Answer:
    if path == "/healthz":
        return document(200, {"ok": True, "state": source.state()})
    if path == "/readyz":
        reasons = source.unready()
        return document(503 if reasons else 200, {"ready": not reasons, "state": source.state(), "reasons": reasons})
    if path == "/status":
        return document(200, source.status())
    return Answer(200, source.metrics(), _METRICS_TYPE)


def _command(verb: str, body: bytes, source: Source, later: Callable[[Answer], None]) -> Answer | None:
    try:
        options = json.loads(body or b"{}")
    except (ValueError, RecursionError):
        options = None
    if not isinstance(options, dict):
        return problem(400, f"the options of {verb} must be a JSON object")
    source.command(verb, options, lambda status, result: later(document(status, result)))
    return None


def document(status: int, content: Document) -> Answer:
    """An answer in JSON."""
    return Answer(status, json.dumps(content, ensure_ascii=False, default=str).encode("utf-8", "replace") + b"\n")


def problem(status: int, detail: str, *, allow: str = "") -> Answer:
    """An error as a problem document (RFC 9457)."""
    content = {"type": "about:blank", "title": HTTPStatus(status).phrase, "status": status, "detail": detail}
    headers = {"Allow": allow} if allow else {}
    return Answer(status, json.dumps(content, ensure_ascii=False).encode() + b"\n", "application/problem+json", headers)
