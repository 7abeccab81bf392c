"""Who is calling: bearer tokens, looked up by hash, and the door that every request goes through.

The door is shut by default: a path that is not declared open answers 401 to a stranger, whether it exists or not.
Everything about the caller (name, role, limits) comes from its credential, nothing from what it says of itself.
"""

import asyncio
import hashlib
import hmac
from collections.abc import Callable, Iterable, MutableMapping
from dataclasses import dataclass, field
from typing import Any

from starlette.types import ASGIApp, Receive, Scope, Send

from pool.clock import monotonic_now
from pool.jobs.internal import OWN_QUEUES
from pool.logs import log
from pool.tables import TokenSection
from pool.web.problems import Problem

ANY = ("*",)
FORGET_FAILURES_S = 60.0
DELAY_PER_FAILURE_S, LONGEST_DELAY_S = 0.01, 0.5
MAX_DELAYED = 100
MAX_ADDRESSES = 10_000


@dataclass(frozen=True, slots=True)
class Caller:
    """Who the credential says is calling, and what it may do. `types` empty: all; `queues` ("*",): all."""

    name: str
    role: str
    max_priority: int = 10
    types: frozenset[str] = frozenset()
    queues: tuple[str, ...] = ("default",)

    def may_use_queue(self, queue: str) -> bool:
        """Never one of jobpool's own, whatever the token allows."""
        return queue not in OWN_QUEUES and (self.queues == ANY or queue in self.queues)

    def may_use_type(self, name: str) -> bool:
        return not self.types or name in self.types


SignIn = Callable[[Scope], Caller | None]


class Tokens:
    """Every token of the configuration, by the hash of it. Comparing takes as long whichever it is, or none."""

    def __init__(self, sections: Iterable[TokenSection]) -> None:
        self._known = [(bytes.fromhex(section.sha256), _caller(section)) for section in sections]

    def caller_of(self, token: bytes) -> Caller | None:
        """The caller whose token this is. All are compared, so that time tells nothing."""
        digest, found = hashlib.sha256(token).digest(), None
        for known, caller in self._known:
            if hmac.compare_digest(known, digest):
                found = caller
        return found

    def by_bearer(self, scope: Scope) -> Caller | None:
        """The caller named by `Authorization: Bearer …`; None for none, several or another scheme."""
        given = [value for name, value in scope["headers"] if name == b"authorization"]
        if len(given) != 1:
            return None
        scheme, _, token = given[0].partition(b" ")
        return self.caller_of(token.strip()) if scheme.lower() == b"bearer" else None


def _caller(section: TokenSection) -> Caller:
    return Caller(section.name, section.role, section.max_priority, frozenset(section.types), tuple(section.queues))


@dataclass(slots=True)
class Failures:
    """Failed sign-ins: counted, and slowed the more of them an address has made in the last minute."""

    total: int = 0
    _delayed: int = 0
    _by_address: dict[str, tuple[int, float]] = field(default_factory=dict)

    def note(self, address: str) -> float:
        """Count one; how many seconds its answer should wait."""
        self.total += 1
        count, since = self._by_address.get(address, (0, monotonic_now()))
        if monotonic_now() - since > FORGET_FAILURES_S:
            count, since = 0, monotonic_now()
        if len(self._by_address) >= MAX_ADDRESSES:
            self._by_address.clear()
        self._by_address[address] = (count + 1, since)
        log.limited("sign-in", "sign-in failed", every_s=10.0, address=address, total=self.total)
        return min(LONGEST_DELAY_S, DELAY_PER_FAILURE_S * count)

    async def slow_down(self, address: str) -> None:
        """Hold the answer back; when too many are held already, answer at once rather than hoard connections."""
        delay = self.note(address)
        if self._delayed >= MAX_DELAYED:
            return
        self._delayed += 1
        try:
            await asyncio.sleep(delay)
        finally:
            self._delayed -= 1


class Door:
    """ASGI middleware: finds the caller, or answers 401.

    `ways` are tried in turn (bearer token; the dashboard adds its session cookie). `open_paths` need no caller, but
    know one who shows a credential.
    """

    def __init__(self, app: ASGIApp, *, ways: list[SignIn], open_paths: set[str], failures: Failures) -> None:
        self._app, self._ways, self._open_paths, self._failures = app, ways, open_paths, failures

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        caller = next((found for way in self._ways if (found := way(scope)) is not None), None)
        if caller is None and scope["path"] not in self._open_paths:
            if _shows_something(scope):
                await self._failures.slow_down(_address(scope))
            await _stranger().response()(scope, receive, send)
            return
        state: MutableMapping[str, Any] = scope.setdefault("state", {})
        state["caller"] = caller
        await self._app(scope, receive, send)


def _shows_something(scope: Scope) -> bool:
    """Whether somebody tried a credential; to come without one is no attempt."""
    return any(name in (b"authorization", b"cookie") for name, _ in scope["headers"])


def _stranger() -> Problem:
    return Problem(
        401,
        "unauthorized",
        "a valid token is needed: send it as Authorization: Bearer TOKEN",
        headers={"WWW-Authenticate": 'Bearer realm="jobpool"'},
    )


def _address(scope: Scope) -> str:
    client = scope.get("client")
    return str(client[0]) if client else "unix"
