"""What can be asked for per job and per enqueue call, and what it adds."""

import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

from pool.backends.contract import Backend
from pool.backends.opening import open_backend
from pool.jobs.ids import new_job_id
from pool.jobs.job import NewJob
from tests.bench import pages, pools
from tests.helpers.house import House
from tests.helpers.servers import Server

WORKERS = 2
CALLS = 1000


@contextmanager
def warm_house(server: Server | None, settings: str) -> Iterator[House]:
    if server is not None:
        server.call("FLUSHALL")
    with pools.pool_on(server, WORKERS, settings) as house:
        house.wait_until(house.enqueue("tasks.noop"), "completed")
        yield house


@contextmanager
def empty_store(server: Server | None, *, producer: bool) -> Iterator[Backend]:
    """An empty one."""
    with tempfile.TemporaryDirectory() as folder:
        if server is not None:
            server.call("FLUSHALL")
        with closing(open_backend(server.url if server else f"sqlite:///{folder}/jobs.db", producer=producer)) as store:
            yield store


def new_job(**fields: Any) -> NewJob:
    return NewJob(**{"id": new_job_id(), "type": "tasks.noop", "payload": pools.PAYLOAD, **fields})


PROMISES: dict[str, dict[str, Any]] = {
    "a no-op job": {},
    "with a time limit": {"timeout": 60.0},
    "at most once": {"max_retries": 0},
    "that returns a result": {"type": "tasks.tell"},
    "that prints a line": {"type": "tasks.talk"},
    "that enqueues another on completing": {"type": "tasks.follow"},
    "that reports progress": {"type": "tasks.report"},
}


def of_jobs(server: Server | None, jobs: int, runs: int) -> dict[str, float]:
    """CPU of workers and server per job of each kind, one claim at a time, so that kinds can be compared."""
    told: dict[str, list[float]] = {name: [] for name in PROMISES}
    with warm_house(server, "claims_ahead = 0") as house:
        for _ in range(runs):
            for name, fields in PROMISES.items():  # each in turn: what else the machine does meets all alike
                found = pools.measured([house], server, jobs // 4, **fields)
                told[name].append(found.cpu_us + found.server_us)
    return {name: statistics.median(found) for name, found in told.items()}


PRODUCED_WITH: dict[str, Callable[[int], dict[str, Any]]] = {
    "an enqueue call": lambda number: {},
    "with an idempotency key": lambda number: {"idempotency_key": f"key-{number}"},
    "with a unique key": lambda number: {"unique_key": f"key-{number}"},
    "delayed": lambda number: {"delay": 3600.0},
}


def of_calls(server: Server | None, runs: int) -> dict[str, float]:
    """Time of one call at the producer: with SQLite nearly all of it is the sync to disk."""
    told: dict[str, list[float]] = {name: [] for name in PRODUCED_WITH}
    for _ in range(runs):
        for name, fields in PRODUCED_WITH.items():
            with empty_store(server, producer=True) as store:
                told[name].append(_call_us(store, fields))
    return {name: statistics.median(found) for name, found in told.items()}


def _call_us(store: Backend, fields: Callable[[int], dict[str, Any]]) -> float:
    batch = [[new_job(**fields(number))] for number in range(CALLS)]
    began = time.monotonic()
    for jobs in batch:
        store.enqueue(jobs)
    return (time.monotonic() - began) / len(batch) * 1e6


def as_table(promises: dict[str, float]) -> str:
    """Each against the plain one above it: jobs by their CPU, calls by their time."""
    rows, plain = [], 0.0
    for name, us in promises.items():
        is_plain = name.startswith(("a ", "an "))
        plain = us if is_plain else plain
        rows.append((name, f"{us:.0f}", "" if is_plain else f"{us - plain:+.0f}"))
    return pages.table(("", "µs", "more than plain"), rows)
