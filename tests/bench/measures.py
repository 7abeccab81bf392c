"""What is measured, and how it is printed: one line per run, then medians and ratios."""

import argparse
import json
import os
import random
import signal
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple

import pool
from pool.backends.contract import Backend
from pool.backends.opening import open_backend
from pool.identity import LaneId, WorkerId, new_pool_id
from pool.jobs.ids import new_job_id
from pool.jobs.job import NewJob
from tests.bench import bare, pools
from tests.helpers.builders import ANYTHING, Hand
from tests.helpers.servers import Server
from tests.helpers.until import until

Options = argparse.Namespace
AT_ONCE = 10_000
GAP_S = (0.08, 0.12)  # the pool is at rest again
Found = dict[str, float]  # what a measure found, by name: medians of its runs


def now() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def p99(values: list[float]) -> float:
    return sorted(values)[min(len(values) - 1, round(len(values) * 0.99))]


def spread(values: list[float]) -> str:
    median = statistics.median(values)
    return f"median {median:.2f}  p99 {p99(values):.2f}  worst {max(values):.2f}  (n={len(values)})"


# ---------------------------------------------------------------- pickup, recovery


def pickup(options: Options) -> Found:
    """An idle pool: from the call that enqueues, as a program makes it, to the first line of the job."""
    medians, p99s = [], []
    with pools.store_for(options.backend) as server, pools.pool_on(server, options.workers) as house:
        house.wait_until(house.client.enqueue(_tell).job_id, "completed")
        for run in range(options.runs):
            called_at = {}
            for _ in range(options.jobs or 200):
                time.sleep(random.uniform(*GAP_S))
                began = now()
                called_at[house.client.enqueue(_tell).job_id] = began
            took_ms = [(_told(house, job) - began) * 1000 for job, began in called_at.items()]
            print(f"run {run + 1}: enqueue call to first line of the job, ms: {spread(took_ms)}", flush=True)
            medians.append(statistics.median(took_ms))
            p99s.append(p99(took_ms))
    return {"median": statistics.median(medians), "p99": statistics.median(p99s)}


@pool.job(name="tasks.tell")
def _tell(n: int = 0) -> float:
    """The declaration alone: the pool's own application has the function that runs."""
    raise NotImplementedError


def _told(house: pools.House, job: str) -> float:
    return float(json.loads(house.wait_until(job, "completed").result or "0"))


def recovery(options: Options) -> Found:
    """SIGKILL of a worker in mid-job: until the first line of the same job on another worker, which notes when it was."""
    with pools.store_for(options.backend) as server:
        took_ms = []
        for _ in range(options.runs * (options.jobs or 7)):
            with pools.pool_on(server, max(2, options.workers)) as house:
                note = house.folder / "begun.txt"
                house.enqueue("tasks.sleep", {"note": str(note)})
                victim, _ = until(lambda note=note: _begun(note, 1), "a worker on it")
                killed_at = now()
                os.kill(int(victim), signal.SIGKILL)
                _, began = until(lambda note=note: _begun(note, 2), "another worker on it")
                took_ms.append((began - killed_at) * 1000)
            if server is not None:
                server.call("FLUSHALL")
    print(f"kill to the first line of the job's next run, ms: {spread(took_ms)}")
    return {"median": statistics.median(took_ms), "worst": max(took_ms)}


def _begun(note: Path, times: int) -> tuple[float, float] | None:
    """Pid and time of this start, once there were so many."""
    lines = note.read_text().splitlines() if note.exists() else []
    pid, began = map(float, lines[times - 1].split()) if len(lines) >= times else (0.0, 0.0)
    return (pid, began) if pid else None


# ---------------------------------------------------------------- enqueue, pending


def enqueue(options: Options) -> Found:
    """One producer beside a bare one: single calls, and 10,000 in one step."""
    jobs, told = options.jobs or 5_000, []
    with pools.store_for(options.backend) as server, tempfile.TemporaryDirectory() as folder:
        url = server.url if server else f"sqlite:///{folder}/jobs.db"
        control = bare.redis_producer(server.port) if server else bare.sqlite_producer(Path(folder) / "bare.db")
        with closing(open_backend(url, producer=True)) as store, control as producer:
            store.enqueue([_job()])
            for run in range(options.runs):
                rates = _enqueue_rates(store, producer, jobs)
                told.append(
                    {**rates, **{f"{way} / bare": rates[way] / rates[f"bare {way}"] for way in ("single", "many")}}
                )
                words = (
                    f"{name} {rate:,.2f}" if "/" in name else f"{name} {rate:,.0f}/s" for name, rate in told[-1].items()
                )
                print(f"run {run + 1}: {'  '.join(words)}", flush=True)
    return {name: statistics.median(run[name] for run in told) for name in told[0]}


def _enqueue_rates(store: Backend, producer: bare.Producer, jobs: int) -> Found:
    def one_by_one() -> None:
        for _ in range(jobs):
            store.enqueue([_job()])

    def put(count: int) -> list[str]:
        return [pools.PAYLOAD] * count

    return {
        "bare single": jobs / _seconds(lambda: producer.one_by_one(put(jobs))),
        "single": jobs / _seconds(one_by_one),
        "bare many": AT_ONCE / _seconds(lambda: producer.at_once(put(AT_ONCE))),
        "many": AT_ONCE / _seconds(lambda: store.enqueue([_job() for _ in range(AT_ONCE)])),
    }


def _seconds(work: Callable[[], object]) -> float:
    began = now()
    work()
    return now() - began


def _job(payload: str = pools.PAYLOAD) -> NewJob:
    return NewJob(id=new_job_id(), type="tasks.noop", payload=payload)


def pending(options: Options) -> Found:
    """Settle-and-claim with a thousand waiting jobs beside a million, by turns; memory (or bytes of file) per waiting job."""
    many = options.jobs or 1_000_000
    payload = json.dumps({"n": "x" * 91})
    with _stocked(options.backend, 1000, payload) as small, _stocked(options.backend, many, payload) as large:
        turns = [(_step_us(small.store, payload), _step_us(large.store, payload)) for _ in range(3 * options.runs)]
    few, much = (statistics.median(took) for took in zip(*turns, strict=True))
    print(f"settle and claim, us: {few:.1f} at 1,000 pending, {much:.1f} at {many:,}")
    print(
        f"ratio {much / few:.2f}; {large.bytes / many:.0f} bytes per pending job with a payload of {len(payload)} bytes"
    )
    return {"few_us": few, "many_us": much, "ratio": much / few, "bytes": large.bytes / many}


class Stocked(NamedTuple):
    """A store with pending jobs, and how many bytes they take in all."""

    store: Backend
    bytes: int


@contextmanager
def _stocked(backend: str, count: int, payload: str) -> Iterator[Stocked]:
    with (
        pools.store_for(backend) as server,
        tempfile.TemporaryDirectory() as folder,
        closing(open_backend(server.url if server else f"sqlite:///{folder}/jobs.db")) as store,
    ):
        empty = _bytes(server, Path(folder))
        _grow(store, count, payload)
        yield Stocked(store, _bytes(server, Path(folder)) - empty)


def _grow(store: Backend, count: int, payload: str) -> None:
    for start in range(0, count, pools.CHUNK):
        store.enqueue([_job(payload) for _ in range(min(pools.CHUNK, count - start))])


def _step_us(store: Backend, payload: str) -> float:
    """The median of 300 steps; as many jobs are added again afterwards."""
    hand = Hand(store, LaneId(WorkerId(new_pool_id("bench"), 0, 1)))
    hand.take()
    took = []
    for _ in range(300):
        began = now()
        hand.settle(want=ANYTHING, started_at=1.0)
        took.append((now() - began) * 1e6)
    hand.complete()
    _grow(store, len(took) + 1, payload)
    return statistics.median(took)


def _bytes(server: Server | None, folder: Path) -> int:
    if server is not None:
        return int(server.call("INFO", "memory")["used_memory"])
    return sum(path.stat().st_size for path in folder.glob("jobs.db*"))
