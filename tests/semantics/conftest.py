"""One running pool per kind of store for all tests here: each test works with jobs, keys and queues of its own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers.house import House
from tests.helpers.servers import FLAVOURS, running

SETTINGS = """
concurrency = 1
[[groups]]
name = "async"
queues = ["async"]
count = 1
concurrency = 4
[restart]
first_delay = 0.05
max_delay = 0.2
[jobs]
ageing = "10m"
max_result = 100_000
[[queues]]
name = "narrow"
max_pending = 3
[[commands]]
type = "shell.greet"
argv = ["sh", "-c", 'read payload; echo "hello $1, $payload" >&2; echo "{\\"greeted\\": \\"$1\\"}"', "sh", "{name}"]
[[types]]
name = "php.thumbnail"
queue = "php"
schema = { type = "object", required = ["path"], properties = { path = { type = "string" } } }
redact = ["secret"]
[[schedule]]
name = "every-second"
type = "tasks.quick"
every = 1
[retention]
completed = "1h"
"""


def open_house(settings: str = SETTINGS, *, workers: int = 4, backend: str | None = None) -> House:
    """A pool with the types of app.py and a log file."""
    house = House(workers=workers, app=(Path(__file__).parent / "app.py").read_text(), backend=backend)
    house.configure(workers=workers, settings=f'{settings}\n[log]\nfile = "{house.folder}/jobpool.log"\n')
    house.start()
    house.wait_for(
        lambda: any("tasks.quick" in s.facts.get("types", {}) for s in house.store.pools()), "published types"
    )
    return house


def log_of(house: House) -> str:
    """What the pool has logged."""
    return (house.folder / "jobpool.log").read_text(errors="replace")


@pytest.fixture(scope="package", params=["sqlite", "valkey"])
def house(request: pytest.FixtureRequest) -> Iterator[House]:
    """The pool, ready."""
    if request.param == "sqlite":
        yield from _lived_in(open_house())
        return
    with running(request.param if request.param in FLAVOURS else "redis") as server:
        yield from _lived_in(open_house(backend=server.url))


def _lived_in(house: House) -> Iterator[House]:
    try:
        yield house
    finally:
        print("\n".join(log_of(house).splitlines()[-100:]))
        house.close()
