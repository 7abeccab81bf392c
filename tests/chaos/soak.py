"""`python -m tests.chaos.soak --minutes 60 --backend sqlite|redis`: no-op jobs without end, and nothing may grow.

After a warm-up the first measure is the base line: memory of each process (PSS), its descriptors, the -wal or the
server's memory, and the time a job takes from its enqueue to its end. The last measures must be about the same.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

import psutil

from pool.jobs.ids import new_job_id
from pool.jobs.job import NewJob
from tests.helpers.house import House
from tests.helpers.servers import Server, running

APP = """
import pool

@pool.job
def nothing() -> None:
    pass
"""
SETTINGS = '[retention]\ncompleted = "5s"\nfailed = "5s"\nidempotency = "5s"\n[log]\nlevel = "WARNING"\n'
WARM_UP_SHARE, PROBES = 0.3, 20
BATCH, MOST_PENDING = 500, 2_000
PSS_GROWTH, PSS_SPARE_BYTES = 1.10, 3_000_000
FDS_SPARE = 2
WAL_BYTES = 64 * 2**20
SERVER_GROWTH, SERVER_SPARE_BYTES = 1.25, 10_000_000
LATENCY_GROWTH, LATENCY_SPARE_S = 3.0, 0.02


@dataclass(frozen=True)
class Measure:
    """One look at everything."""

    pss: dict[int, int]
    fds: dict[int, int]
    wal_bytes: int
    server_bytes: int
    latency_s: float


@dataclass
class Soak:
    """What was done and what was seen."""

    jobs: int = 0
    seconds: float = 0.0
    measures: list[Measure] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def text(self) -> str:
        first, last = self.measures[0], self.measures[-1]
        rows = [f"{self.jobs:,} jobs in {self.seconds:.0f} s: {self.jobs / self.seconds:,.0f} a second"]
        rows += [f"pid {pid}: PSS {first.pss.get(pid, 0):,} → {size:,} bytes" for pid, size in last.pss.items()]
        rows += [f"-wal {last.wal_bytes:,}, server {last.server_bytes:,} bytes"]
        rows += [f"latency {first.latency_s * 1000:.1f} → {last.latency_s * 1000:.1f} ms"]
        return "\n".join([*rows, *(f"WRONG {line}" for line in self.wrong)])


@contextmanager
def soaked_house(backend: str, workers: int) -> Iterator[tuple[House, Server | None]]:
    """A pool whose finished jobs are soon forgotten."""
    if backend == "sqlite":
        house = House(workers=workers, app=APP, settings=SETTINGS)
        try:
            yield house.start(), None
        finally:
            house.close()
        return
    with running(aof=True, fsync="everysec") as server:
        house = House(workers=workers, app=APP, settings=SETTINGS, backend=server.url)
        try:
            yield house.start(), server
        finally:
            house.close()


def soak(backend: str, seconds: float, workers: int = 2) -> Soak:
    """Feed the pool for so long, measuring ten times after the warm-up."""
    done = Soak()
    with soaked_house(backend, workers) as (house, server):
        began = time.monotonic()
        next_measure = began + seconds * WARM_UP_SHARE
        while (now := time.monotonic()) < began + seconds:
            if now >= next_measure:
                done.measures.append(measure(house, server))
                next_measure = now + seconds * (1 - WARM_UP_SHARE) / 10
            done.jobs += feed(house)
        drain(house)
        done.seconds = time.monotonic() - began
        done.measures.append(measure(house, server))
        done.wrong = judged(done)
        if any(worker["restarts"] for worker in house.status()["workers"]):
            done.wrong.append("a worker was restarted")
    return done


def feed(house: House) -> int:
    """Another batch, unless enough is waiting."""
    if house.counts()["pending"] > MOST_PENDING:
        time.sleep(0.02)
        return 0
    house.store.enqueue([NewJob(id=new_job_id(), type="tasks.nothing") for _ in range(BATCH)])
    return BATCH


def drain(house: House) -> None:
    house.wait_for(lambda: not any(house.counts()[name] for name in ("pending", "running")), "the end of the work")


def measure(house: House, server: Server | None) -> Measure:
    drain(house)
    latency = statistics.median(_probe(house) for _ in range(PROBES))
    pids = house.pids()
    wal = house.folder / "jobs.db-wal"
    return Measure(
        {pid: psutil.Process(pid).memory_full_info().pss for pid in pids},
        {pid: psutil.Process(pid).num_fds() for pid in pids},
        wal.stat().st_size if wal.exists() else 0,
        int(server.call("INFO", "memory")["used_memory"]) if server else 0,
        latency,
    )


def _probe(house: House) -> float:
    """Seconds from the enqueue of one job to its end, as a client sees it."""
    began = time.monotonic()
    job = NewJob(id=new_job_id(), type="tasks.nothing")
    house.store.enqueue([job])
    while house.store.job(job.id).status.is_live:
        with suppress(InterruptedError):
            time.sleep(0.0005)
    return time.monotonic() - began


def judged(done: Soak) -> list[str]:
    """Every quantity that grew."""
    first, last = done.measures[0], done.measures[-1]
    wrong = [
        f"pid {pid} grew from {first.pss[pid]:,} to {size:,} bytes of PSS"
        for pid, size in last.pss.items()
        if pid in first.pss and size > first.pss[pid] * PSS_GROWTH + PSS_SPARE_BYTES
    ]
    wrong += [
        f"pid {pid} holds {count} descriptors, {first.fds[pid]} at first"
        for pid, count in last.fds.items()
        if pid in first.fds and count > first.fds[pid] + FDS_SPARE
    ]
    if last.wal_bytes > WAL_BYTES:
        wrong.append(f"the -wal has {last.wal_bytes:,} bytes")
    if last.server_bytes > first.server_bytes * SERVER_GROWTH + SERVER_SPARE_BYTES:
        wrong.append(f"the server grew from {first.server_bytes:,} to {last.server_bytes:,} bytes")
    if last.latency_s > first.latency_s * LATENCY_GROWTH + LATENCY_SPARE_S:
        wrong.append(f"a job takes {last.latency_s:.3f} s, {first.latency_s:.3f} s at first")
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--backend", choices=("sqlite", "redis"), default="sqlite")
    parser.add_argument("--workers", type=int, default=2)
    asked = parser.parse_args()
    done = soak(asked.backend, asked.minutes * 60, asked.workers)
    print(done.text(), flush=True)
    return 1 if done.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
