"""Where the time of one job goes, and what each promise costs: CPU per job, by /proc and the server's own counts.

CPU rather than time, for it depends little on what else the machine does.
"""

import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from pool.identity import LaneId, WorkerId, new_pool_id
from tests.bench import bare, pages, pools, promises, speeds
from tests.bench.measures import Found, Options
from tests.helpers.builders import ANYTHING, Hand
from tests.helpers.servers import Server
from tests.helpers.until import until

WORKERS = promises.WORKERS
TICKS_PER_S = 100  # of /proc/PID/stat, which alone tells user from kernel
NAMES = {"redis": "Redis", "valkey": "Valkey", "sqlite": "SQLite"}


def anatomy(options: Options) -> Found:
    """Tables in Markdown, for one backend or both."""
    jobs, runs = (2_000, 1) if options.quick else (options.jobs or 10_000, options.runs)
    found: Found = {}
    tables = [pages.circumstances(runs)]
    for backend in [options.backend] if options.backend else ["redis", "sqlite"]:
        with pools.store_for(backend) as server:
            steps = _steps(server, jobs, runs)
            asked = {**promises.of_jobs(server, jobs, runs), **promises.of_calls(server, runs)}
        tables.append(f"**{NAMES[backend]}: CPU of one no-op job, µs**\n\n{_as_table(steps)}")
        tables.append(f"**{NAMES[backend]}: what is asked for, and what it adds**\n\n{promises.as_table(asked)}")
        print("\n" + "\n\n".join(tables[-2:]), flush=True)
        found |= {f"{backend} {way} {name}": us for way, parts in steps.items() for name, us in parts.items()}
        found |= {f"{backend} {name}": us for name, us in asked.items()}
    if options.write:
        pages.fill("performance.md", "anatomy", "\n\n".join(tables))
    return found


# ---------------------------------------------------------------- the parts of a job

Parts = dict[str, float]
SERVERS = ("server", "of it in scripts, by its own clock", "scripts called, per job")


def _steps(server: Server | None, jobs: int, runs: int) -> dict[str, Parts]:
    """The bare loop, then the pool both ways."""
    ways = {speeds.ONE: "claims_ahead = 0", speeds.AHEAD: ""}
    told = {"bare loop": _median_parts([_bare(server, jobs) for _ in range(runs)])}
    client = statistics.median(_client_us(server, jobs // 2) for _ in range(runs))
    for way, settings in ways.items():
        told[way] = _median_parts(list(_of_pool(server, settings, jobs, runs)))
    told[speeds.ONE] = _with(told[speeds.ONE], "of it to settle and claim through the backend", client)
    return told


def _with(parts: Parts, name: str, us: float) -> Parts:
    """Right after what it is a part of."""
    (first, whole), *others = parts.items()
    return {first: whole, name: us, **dict(others)}


def _median_parts(runs: list[Parts]) -> Parts:
    return {name: statistics.median(run[name] for run in runs) for name in runs[0]}


class _Clock(NamedTuple):
    """CPU of processes in seconds, and the server's counts, at one moment."""

    worker: float
    worker_in_kernel: float
    others: float
    server: float
    script_us: float
    calls: float


def _read(workers: list[int], others: list[int], server: Server | None) -> _Clock:
    its = [server.pid] if server else []
    cpu_s = [sum(map(pools.cpu_nanoseconds, pids)) / 1e9 for pids in (workers, others, its)]
    return _Clock(cpu_s[0], sum(map(_kernel_s, workers)), cpu_s[1], cpu_s[2], *_scripts(server))


def _kernel_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[12]) / TICKS_PER_S


def _scripts(server: Server | None) -> tuple[float, float]:
    """Time inside scripts, in us, and their calls, by the server."""
    known: dict[str, Any] = server.call("INFO", "commandstats") if server else {}
    found = known.get("cmdstat_evalsha", {"usec": 0, "calls": 0})
    return float(found["usec"]), float(found["calls"])


def _parts(before: _Clock, after: _Clock, jobs: int, with_server: bool) -> Parts:
    spent = _Clock(*(late - early for early, late in zip(before, after, strict=True)))
    told = {
        "worker": spent.worker / jobs * 1e6,
        "of it in the kernel": spent.worker_in_kernel / jobs * 1e6,
        "keeper and supervisor": spent.others / jobs * 1e6,
    }
    if with_server:
        its = (spent.server / jobs * 1e6, spent.script_us / jobs, spent.calls / jobs)
        told |= dict(zip(SERVERS, its, strict=True))
    return told


def _of_pool(server: Server | None, settings: str, jobs: int, runs: int) -> Iterator[Parts]:
    with promises.warm_house(server, settings) as house:
        workers, others = sorted(house.worker_pids()), [house.pid, house.keeper_pid()]
        for _ in range(runs):
            house.store.set_queue("default", paused=True)
            pools.fill(house, jobs)
            done, before = house.counts()["completed"], _read(workers, others, server)
            house.store.set_queue("default", paused=False)
            until(lambda done=done: house.counts()["completed"] >= done + jobs, "all jobs completed", within=300)
            yield _parts(before, _read(workers, others, server), jobs, server is not None)


def _bare(server: Server | None, jobs: int) -> Parts:
    """The same parts of the barest loop, as far as it has them."""
    with tempfile.TemporaryDirectory() as folder:
        if server is None:
            path = Path(folder) / "bare.db"
            bare.fill_sqlite(path, jobs)
            return {"worker": bare.speed(WORKERS, jobs, bare.sqlite_fused(path)).cpu_us}
        bare.fill_redis(server.port, jobs)
        before = _read([], [], server)
        found = bare.speed(WORKERS, jobs, bare.raw_socket(server.port))
        parts = _parts(before, _read([], [], server), jobs, True)
    return {"worker": found.cpu_us, **{name: us for name, us in parts.items() if name in SERVERS}}


def _client_us(server: Server | None, jobs: int) -> float:
    """One process that settles and claims through the backend and does nothing else: its CPU per step."""
    with promises.empty_store(server, producer=False) as store:
        for _ in range(jobs // 1000 + 1):
            store.enqueue([promises.new_job() for _ in range(1000)])
        hand = Hand(store, LaneId(WorkerId(new_pool_id("bench"), 0, 1)))
        hand.take()
        began = time.process_time()
        for _ in range(jobs):
            hand.settle(want=ANYTHING, started_at=1.0)
        return (time.process_time() - began) / jobs * 1e6


# ---------------------------------------------------------------- printing


def _as_table(told: dict[str, Parts]) -> str:
    longest = max(told.values(), key=len)
    names = list(dict.fromkeys([*longest, *(name for parts in told.values() for name in parts)]))
    rows = [(name, *(f"{parts[name]:.1f}" if name in parts else "" for parts in told.values())) for name in names]
    return pages.table(("", *told), rows)
