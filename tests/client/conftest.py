"""A real store for the client's tests, of either kind, and jobs to put there."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import pool
from tests.helpers.servers import running


@pytest.fixture(params=["sqlite", "redis"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Where an empty store is; an SQLite one does not exist yet."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/jobs.db"
        return
    with running() as server:
        yield server.url


@pytest.fixture
def client(url: str) -> Iterator[pool.Client]:
    with pool.Client(url) as client:
        yield client


@pytest.fixture(autouse=True)
def the_default_client_again() -> Iterator[None]:
    yield
    pool.use(None)
