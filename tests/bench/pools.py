"""Whole pools under measurement: real processes of `python -m pool start`, timed by what the store itself wrote down."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pool.backends.contract import JobFilter
from pool.jobs.ids import new_job_id
from pool.jobs.job import NewJob
from pool.jobs.lifecycle import Status
from tests.bench.bare import Speed
from tests.helpers.house import House
from tests.helpers.servers import FLAVOURS, Server, running
from tests.helpers.until import until

APP = '''
import os, time
import pool

@pool.job
def noop(n: int = 0, text: str = "") -> None:
    """Nothing."""

@pool.job
def tell(n: int = 0) -> float:
    """When it began."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)

@pool.job
def talk(n: int = 0) -> None:
    print("a line")

@pool.job
def follow(n: int = 0) -> None:
    pool.current().enqueue(noop.options(delay=3600), n)

@pool.job
def report(n: int = 0) -> None:
    pool.current().progress(1.0)

@pool.job
def sleep(seconds: float = 60.0, note: str = "") -> float:
    """Returns when it began, and appends that to the file `note` at once."""
    began = time.clock_gettime(time.CLOCK_BOOTTIME)
    if note:
        with open(note, "a") as file:
            file.write(f"{os.getpid()} {began}\\n")
    time.sleep(seconds)
    return began
'''
PAYLOAD = '{"n":12345}'
CHUNK = 10_000
MOST_BYTES_AT_ONCE = 4_000_000


@contextmanager
def store_for(backend: str) -> Iterator[Server | None]:
    """The server of a backend by name, without persistence as in the control; None for SQLite."""
    if backend == "sqlite":
        yield None
        return
    if backend not in FLAVOURS:
        raise SystemExit(f"no {backend} server on this machine; there are sqlite, {', '.join(FLAVOURS)}")
    with running(backend) as server:
        yield server


@contextmanager
def pool_on(
    server: Server | None, workers: int, settings: str = "", environ: dict[str, str] | None = None
) -> Iterator[House]:
    """A ready pool, on a database of its own when there is no server; `settings` and `environ` as for a house."""
    url = server.url if server else None
    house = House(workers=workers, app=APP, settings=settings, environ=environ, backend=url)
    try:
        yield house.start()
    finally:
        house.close()


def payload_of(size: int) -> str:
    """A payload of so many bytes that the no-op takes."""
    frame = json.dumps({"text": ""}, separators=(",", ":"))
    return frame.replace('""', f'"{"x" * max(0, size - len(frame))}"')


def fill(house: House, jobs: int, payload: str = PAYLOAD, **fields: Any) -> None:
    """Enqueue so many, in batches; `fields` as of a new job."""
    most = max(1, min(CHUNK, MOST_BYTES_AT_ONCE // len(payload)))
    for start in range(0, jobs, most):
        count = min(most, jobs - start)
        house.store.enqueue([_job(payload=payload, **fields) for _ in range(count)])


def _job(**fields: Any) -> NewJob:
    return NewJob(**{"id": new_job_id(), "type": "tasks.noop", **fields})


def speed(server: Server | None, workers: int, jobs: int, *, settings: str = "") -> Speed:
    """Of a pool of its own, which works off so many no-op jobs."""
    return next(speeds(server, workers, jobs, settings=settings))


def speeds(
    server: Server | None,
    workers: int,
    jobs: int,
    *,
    runs: int = 1,
    settings: str = "",
    payload: str = PAYLOAD,
    left: int = 0,
) -> Iterator[Speed]:
    """Of one pool whose workers are all ready and waiting when the full queue is opened; `left` jobs stay pending."""
    if server is not None:
        server.call("FLUSHALL")
    with pool_on(server, workers, settings) as house:
        house.wait_until(house.enqueue("tasks.noop"), "completed")
        for _ in range(runs):
            yield measured([house], server, jobs, payload=payload, left=left)


def measured(
    houses: Sequence[House],
    server: Server | None,
    jobs: int,
    *,
    payload: str = PAYLOAD,
    left: int = 0,
    **fields: Any,
) -> Speed:
    """Pools on one store: the queue is filled while it is closed, opened, and closed again when so many are done."""
    house = houses[0]
    house.store.set_queue("default", paused=True)
    fill(house, jobs + left - house.counts()["pending"], payload, **fields)
    done = house.counts()["completed"]
    before = _spent(houses, server)
    house.store.set_queue("default", paused=False)
    until(lambda: house.counts()["completed"] >= done + jobs, "all jobs completed", within=300)
    house.store.set_queue("default", paused=True)
    until(lambda: not house.counts()["running"], "nothing in hand")
    after = _spent(houses, server)
    ends = sorted(_ends(house))[done:]
    mine, its = ((late - early) / len(ends) * 1e6 for early, late in zip(before, after, strict=True))
    return Speed((len(ends) - 1) / (ends[-1] - ends[0]), mine, _fairness(houses), its)


def _spent(houses: Sequence[House], server: Server | None) -> tuple[float, float]:
    """CPU of the workers, and of the server, in seconds."""
    workers = (pid for house in houses for pid in house.worker_pids())
    return sum(map(cpu_nanoseconds, workers)) / 1e9, cpu_nanoseconds(server.pid) / 1e9 if server else 0.0


def _fairness(houses: Sequence[House]) -> float:
    """What the worker with the fewest jobs did, in parts of the mean."""
    done = [worker["completed"] for house in houses for worker in house.status()["workers"]]
    return min(done) / (sum(done) / len(done)) if sum(done) else 1.0


def cpu_nanoseconds(pid: int) -> int:
    """Of all its threads, finer than the ticks of /proc/PID/stat; children that have ended do not count."""
    return sum(int(file.read_text().split()[0]) for file in Path(f"/proc/{pid}/task").glob("*/schedstat"))


def _ends(house: House) -> Iterator[float]:
    """When each job ended, by the store's clock."""
    after: str | None = None
    while True:
        page = house.store.jobs(JobFilter(status=Status.COMPLETED), after=after, limit=1000)
        yield from (job.finished_at or 0.0 for job in page.jobs)
        if (after := page.after) is None:
            return
