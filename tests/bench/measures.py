"""What is measured, and how it is printed: one line per run, then medians and ratios."""

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from pool.backends.opening import open_backend
from pool.identity import LaneId, WorkerId, new_pool_id
from pool.jobs.ids import new_job_id
from pool.jobs.job import NewJob
from tests.bench import bare, pools
from tests.bench.bare import Speed
from tests.helpers.builders import ANYTHING, Hand
from tests.helpers.servers import Server

Options = argparse.Namespace


def now() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def spread(values: list[float]) -> str:
    values = sorted(values)
    p99 = values[min(len(values) - 1, round(len(values) * 0.99))]
    return f"median {statistics.median(values):.2f}  p99 {p99:.2f}  worst {values[-1]:.2f}  (n={len(values)})"


def report_ratio(name: str, product: list[Speed], control: list[Speed]) -> None:
    """Runs alternate, so each is compared with the control right before it."""
    ratios = [mine.per_s / other.per_s for mine, other in zip(product, control, strict=True)]
    costs = [mine.cpu_us / other.cpu_us for mine, other in zip(product, control, strict=True)]
    print(
        f"{name}: {statistics.median(ratios):.2f} times as fast (from {min(ratios):.2f} to {max(ratios):.2f}), "
        f"{statistics.median(costs):.2f} times its CPU"
    )


# ---------------------------------------------------------------- throughput


def throughput(options: Options) -> None:
    """No-op jobs per second of a whole pool against the bare loop with as many processes."""
    jobs = options.jobs or 20_000
    with pools.store_for(options.backend) as server, tempfile.TemporaryDirectory() as folder:
        loops = _loops(server, Path(folder) / "bare.db", jobs)
        told: dict[str, list[Speed]] = {name: [] for name in ("pool", *loops)}
        for run in range(options.runs):
            for name, measure in loops.items():
                told[name].append(measure(options.workers))
            told["pool"].append(pools.speed(server, options.workers, jobs))
            print(
                f"run {run + 1}: "
                + "  ".join(
                    f"{name} {speeds[-1].per_s:,.0f}/s {speeds[-1].cpu_us:.0f} us" for name, speeds in told.items()
                ),
                flush=True,
            )
    for name in loops:
        report_ratio(f"pool against {name}, N={options.workers}", told["pool"], told[name])


def _loops(server: Server | None, path: Path, jobs: int) -> dict[str, Callable[[int], Speed]]:
    if server is None:

        def fused(processes: int) -> Speed:
            bare.fill_sqlite(path, jobs)
            return bare.speed(processes, jobs, bare.sqlite_fused(path))

        return {"L3 sqlite fused": fused}

    def of(loop: Callable[[int], bare.Loop]) -> Callable[[int], Speed]:
        def measure(processes: int) -> Speed:
            bare.fill_redis(server.port, jobs)
            return bare.speed(processes, jobs, loop(server.port))

        return measure

    return {"L1 redis-py": of(bare.redis_py), "raw socket": of(bare.raw_socket)}


# ---------------------------------------------------------------- pickup, recovery, idle


def pickup(options: Options) -> None:
    """An idle pool: from the call that enqueues to the first line of the job."""
    with pools.store_for(options.backend) as server, pools.pool_on(server, options.workers) as house:
        house.wait_until(house.enqueue("tasks.tell"), "completed")
        for run in range(options.runs):
            took_ms = []
            for _ in range(options.jobs or 200):
                time.sleep(0.03)
                began = now()
                job = house.wait_until(house.enqueue("tasks.tell"), "completed")
                took_ms.append((json.loads(job.result or "0") - began) * 1000)
            print(f"run {run + 1}: enqueue call to first line of the job, ms: {spread(took_ms)}", flush=True)


def recovery(options: Options) -> None:
    """SIGKILL of a worker in mid-job: until the same job runs on another worker."""
    with pools.store_for(options.backend) as server:
        took_ms = []
        for _ in range(options.runs * (options.jobs or 7)):
            with pools.pool_on(server, max(2, options.workers)) as house:
                job = house.enqueue("tasks.sleep")
                victim = house.wait_for(lambda house=house, job=job: _runner(house, job, None), "a worker on it")
                killed_at = now()
                house.kill(victim)
                house.wait_for(lambda house=house, job=job, it=victim: _runner(house, job, it), "another worker on it")
                took_ms.append((now() - killed_at) * 1000)
            if server is not None:
                server.call("FLUSHALL")
    print(f"kill to the job running again, ms: {spread(took_ms)}")


def _runner(house: pools.House, job: str, other_than: int | None) -> int | None:
    return next((one.pid for one in house.workers() if job in one.jobs and one.pid != other_than), None)


def idle(options: Options) -> None:
    """CPU of the whole tree, and of the server, while nothing is to be done."""
    with pools.store_for(options.backend) as server, pools.pool_on(server, options.workers) as house:
        house.wait_until(house.enqueue("tasks.noop"), "completed")
        time.sleep(2)
        for run in range(options.runs):
            before = [sum(map(pools.cpu_seconds, house.pids())), (pools.cpu_seconds(server.pid) if server else 0.0)]
            time.sleep(20)
            tree = (sum(map(pools.cpu_seconds, house.pids())) - before[0]) / 20
            served = ((pools.cpu_seconds(server.pid) if server else 0.0) - before[1]) / 20
            print(f"run {run + 1}: CPU of the idle tree {tree:.3%}, of the server {served:.3%}", flush=True)


# ---------------------------------------------------------------- enqueue, pending


def enqueue(options: Options) -> None:
    """One producer: single calls, and 10,000 in one step."""
    jobs = options.jobs or 5_000
    with pools.store_for(options.backend) as server, tempfile.TemporaryDirectory() as folder:
        store = open_backend(server.url if server else f"sqlite:///{folder}/jobs.db", producer=True)
        with closing(store):
            for run in range(options.runs):
                began = now()
                for _ in range(jobs):
                    store.enqueue([_job()])
                single = jobs / (now() - began)
                batch = [_job() for _ in range(10_000)]
                began = now()
                store.enqueue(batch)
                print(
                    f"run {run + 1}: single {single:,.0f}/s  batch of 10,000 {10_000 / (now() - began):,.0f}/s",
                    flush=True,
                )


def _job(payload: str = pools.PAYLOAD) -> NewJob:
    return NewJob(id=new_job_id(), type="tasks.noop", payload=payload)


def pending(options: Options) -> None:
    """Settle-and-claim with a thousand waiting jobs and with a million; memory (or bytes of file) per waiting job."""
    many = options.jobs or 1_000_000
    payload = json.dumps({"n": "x" * 91})
    with pools.store_for(options.backend) as server, tempfile.TemporaryDirectory() as folder:
        store = open_backend(server.url if server else f"sqlite:///{folder}/jobs.db")
        with closing(store):
            empty = _bytes(server, Path(folder))
            _grow(store, 1000, payload)
            few_us = [_step_us(store, payload) for _ in range(options.runs)]
            _grow(store, many - 1000, payload)
            size = (_bytes(server, Path(folder)) - empty) / many
            many_us = [_step_us(store, payload) for _ in range(options.runs)]
    print(
        f"settle and claim, us: {statistics.median(few_us):.1f} at 1,000 pending, {statistics.median(many_us):.1f} at {many:,}"
    )
    print(
        f"ratio {statistics.median(many_us) / statistics.median(few_us):.2f}; {size:.0f} bytes per pending job with a payload of {len(payload)} bytes"
    )


def _grow(store: object, count: int, payload: str) -> None:
    for start in range(0, count, pools.CHUNK):
        store.enqueue([_job(payload) for _ in range(min(pools.CHUNK, count - start))])  # type: ignore[attr-defined]


def _step_us(store: object, payload: str) -> float:
    """The median of 300 steps; as many jobs are added again afterwards."""
    hand = Hand(store, LaneId(WorkerId(new_pool_id("bench"), 0, 1)))  # type: ignore[arg-type]
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
