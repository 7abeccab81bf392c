"""One fresh, empty store per test, on every backend: the same promises are tried on SQLite, Redis and Valkey."""

import os
import resource
import secrets
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from pool.backends.contract import Backend
from tests.helpers.builders import Hand, some_pool
from tests.helpers.servers import FLAVOURS, Server, flavour, running
from tests.helpers.stores import Place, close_opened

__all__ = ["flavour"]  # a fixture: each kind of server in turn

BACKENDS = ("sqlite", "redis", "valkey")


class Servers:
    """One server per flavour for the whole session, started when the first test asks for it."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._running: dict[str, Server] = {}

    def url(self, flavour: str) -> str:
        if flavour not in self._running:
            self._running[flavour] = self._stack.enter_context(running(flavour))
        return self._running[flavour].url

    def close(self) -> None:
        self._stack.close()


@pytest.fixture(scope="session", autouse=True)
def many_descriptors() -> None:
    """A process keeps the lock file of each SQLite store it ever opened, and this one opens thousands of stores."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


@pytest.fixture(autouse=True)
def opened_stores() -> Iterator[None]:
    """Whoever opens a database by `open_sqlite` leaves it to this to close it."""
    yield
    close_opened()


@pytest.fixture(scope="session")
def session_servers() -> Iterator[Servers]:
    servers = Servers()
    yield servers
    servers.close()


@pytest.fixture(params=BACKENDS)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """Where this test's store is; on Redis a namespace of its own on the shared server."""
    kind = request.param
    if kind == "sqlite":
        found = Place(kind, f"sqlite:///{tmp_path}/jobpool.db")
    else:
        _require(kind)
        servers = request.getfixturevalue("session_servers")
        found = Place(kind, servers.url(kind), namespace=f"t-{secrets.token_hex(6)}")
    yield found
    found.close()


def _require(flavour: str) -> None:
    if flavour in FLAVOURS:
        return
    if os.environ.get("CI", "").lower() in ("1", "true"):
        pytest.fail(f"no {flavour} server on this machine, and CI never skips one")
    pytest.skip(f"no {flavour} server on this machine")


@pytest.fixture
def store_url(place: Place) -> str:
    return place.url


@pytest.fixture
def stores(place: Place) -> Callable[[], Backend]:
    """Opens a further client of the same store at each call."""
    return place.open


@pytest.fixture
def store(place: Place) -> Backend:
    """A client of a fresh, empty store."""
    return place.open()


@pytest.fixture
def hand(store: Backend) -> Hand:
    """A lane of a worker that nobody knows yet."""
    return Hand(store)


@pytest.fixture
def hands(store: Backend) -> Callable[..., Hand]:
    """Makes further hands: each a worker of its own in one pool, or the lane asked for."""
    from pool.identity import LaneId, WorkerId

    house = some_pool()
    slots = iter(range(1_000, 10_000))  # never a slot that a test names

    def make(slot: int | None = None, generation: int = 1, lane: int = 0) -> Hand:
        return Hand(store, LaneId(WorkerId(house, next(slots) if slot is None else slot, generation), lane))

    return make
