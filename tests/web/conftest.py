"""One server per kind of store for the whole session; tests keep apart by queues of their own."""

import secrets
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tests.helpers.house import open_house  # noqa: F401
from tests.helpers.servers import DEFAULT_FLAVOUR, running
from tests.web.serving import Api


@pytest.fixture(scope="session", params=["sqlite", "redis"])
def api(request: pytest.FixtureRequest) -> Iterator[Api]:
    """A server on each kind of store."""
    with ExitStack() as stack:
        url = None if request.param == "sqlite" else stack.enter_context(running(DEFAULT_FLAVOUR)).url
        server = Api(url)
        stack.callback(server.close)
        yield server.start()


@pytest.fixture(scope="session")
def sqlite_api() -> Iterator[Api]:
    """A server where the store makes no difference."""
    server = Api()
    yield server.start()
    server.close()


@pytest.fixture
def open_api() -> Iterator[Callable[..., Api]]:
    """A server of the test's own."""
    servers: list[Api] = []

    def open_one(*args: Any, start: bool = True, **options: Any) -> Api:
        servers.append(Api(*args, **options))
        return servers[-1].start() if start else servers[-1]

    yield open_one
    for server in servers:
        print(f"--- log of {server.folder}\n{server.log_text()[-4000:]}")
        server.close()


@pytest.fixture
def queue() -> str:
    """A queue that no other test uses."""
    return f"q-{secrets.token_hex(6)}"
