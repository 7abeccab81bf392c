"""What one Redis carries: 200 workers in 10 pools, 10,000 idle workers, and what follows from both for a thousand hosts."""

import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from typing import NamedTuple

from pool.backends.opening import open_backend
from pool.identity import new_pool_id
from pool.jobs.ids import new_job_id
from pool.jobs.job import NewJob
from tests.bench import idlers, model, pages, pools
from tests.bench.measures import Found, Options, p99
from tests.helpers.house import House
from tests.helpers.servers import DEFAULT_FLAVOUR, Server, cluster, cluster_url, running

QUIET_S = 12.0  # several beats and looks of every keeper
PACE_S = 0.02


class Sizes(NamedTuple):
    """How much of everything; `quick` only to try whether it works."""

    pools: int
    workers: int
    jobs: int
    idle_pools: int
    idle_workers: int
    picked: int


WHOLE = Sizes(10, 20, 30_000, 100, 100, 500)
QUICK = Sizes(3, 4, 3_000, 10, 20, 50)


def scale(options: Options) -> Found:
    """All of it, printed as sentences; `model` says what it means for many hosts."""
    sizes, above = (QUICK if options.quick else WHOLE), pages.circumstances(1)
    found = many_workers(sizes) | many_idle(sizes) | one_producer() | namespaces_on_a_cluster()
    found |= {
        "workers": sizes.pools * sizes.workers,
        "pools": sizes.pools,
        "crowd": sizes.idle_pools * sizes.idle_workers,
    }
    for name, text in (
        ("scale: measured", f"{above}\n\n{model.measured(found)}"),
        ("scale: model", model.predicted(found)),
    ):
        print(f"\n{text}")
        if options.write:
            pages.fill("scale.md", name, text)
    return found


# ---------------------------------------------------------------- 200 workers in 10 pools


def many_workers(sizes: Sizes) -> Found:
    """Throughput against that of one pool of 8, and what a keeper costs in either, at work and at rest."""
    with running(DEFAULT_FLAVOUR, maxclients=4000) as server:
        few = _crew(server, 1, 8, sizes.jobs)
        many = _crew(server, sizes.pools, sizes.workers, sizes.jobs)
    count = sizes.pools * sizes.workers
    print(f"8 workers in 1 pool: {few.per_s:,.0f} jobs/s; {count} in {sizes.pools}: {many.per_s:,.0f}")
    print(
        f"ratio {many.per_s / few.per_s:.2f}; CPU of the server per job {few.server_us:.1f} and {many.server_us:.1f} us"
    )
    print(
        f"idle keeper, CPU per pool: {few.keeper_ms:.2f} ms/s with 1 pool, {many.keeper_ms:.2f} ms/s with {sizes.pools}"
    )
    print(
        f"the server for an idle pool: {few.idle_ms:.2f} ms/s with 1 pool, {many.idle_ms / sizes.pools:.2f} with many"
    )
    return {
        "few per_s": few.per_s,
        "many per_s": many.per_s,
        "many / few": many.per_s / few.per_s,
        "server_us": few.server_us,
        "keeper ms": few.keeper_ms,
        "keeper ratio": many.keeper_ms / few.keeper_ms,
    }


class Crew(NamedTuple):
    per_s: float
    server_us: float
    keeper_ms: float  # CPU of one idle keeper per second
    idle_ms: float  # of the server, for all pools


def _crew(server: Server, count: int, workers: int, jobs: int) -> Crew:
    """So many pools on one store: at work first, then at rest."""
    server.call("FLUSHALL")
    with ExitStack() as stack:
        houses = [House(workers=workers, app=pools.APP, backend=server.url) for _ in range(count)]
        for house in houses:
            stack.callback(house.close)
            house.start(wait=False)
        for house in houses:
            house.wait_ready(within=180)
        done = [pools.measured(houses, server, jobs) for _ in range(3)]
        time.sleep(6)  # the echoes of work are not rest
        keepers = [house.keeper_pid() for house in houses]
        spent = _spent_in(QUIET_S, [*keepers, server.pid])
    rate, cost = (statistics.median(values) for values in ((s.per_s for s in done), (s.server_us for s in done)))
    return Crew(rate, cost, sum(spent[:-1]) / count * 1000, spent[-1] * 1000)


def _spent_in(seconds: float, pids: Sequence[int]) -> list[float]:
    """CPU seconds of each process per second, while that time passes."""
    before = [pools.cpu_nanoseconds(pid) for pid in pids]
    time.sleep(seconds)
    return [(pools.cpu_nanoseconds(pid) - was) / seconds / 1e9 for pid, was in zip(pids, before, strict=True)]


# ---------------------------------------------------------------- 10,000 idle workers


def many_idle(sizes: Sizes) -> Found:
    """Memory and CPU of the server per idle worker and per keeper, and how soon a job is picked up among them all."""
    count = sizes.idle_pools * sizes.idle_workers
    with running(DEFAULT_FLAVOUR, maxclients=count + 1000) as server:
        names = [new_pool_id(f"idle-{number}") for number in range(sizes.idle_pools)]
        empty = _memory(server)
        with idlers.crowd(server.url, names, sizes.idle_workers) as crowd:
            resting = _spent_in(QUIET_S, [server.pid])[0]
            size = (_memory(server) - empty) / count  # by now the server has given back what it took for the greetings
            with idlers.keepers(server.url, names):
                time.sleep(idlers.BEAT_S + 1)  # each pool's first beat
                kept = _spent_in(QUIET_S, [server.pid])[0]
                watch_ms = _watch_ms(server)
                _enqueue_at_pace(server, sizes.picked)
            waits = [wait * 1000 for wait in crowd.end()]
    assert len(waits) == sizes.picked, f"{len(waits)} of {sizes.picked} jobs were picked up"
    per_worker, per_pool = resting / count * 1e6, max(0.0, kept - resting) / sizes.idle_pools * 1000
    print(f"{count:,} idle workers: {size:,.0f} bytes and {per_worker:.2f} us/s of the server's CPU each")
    print(
        f"keepers of {sizes.idle_pools} pools: {per_pool:.2f} ms/s of the server each; a look at all pools {watch_ms:.2f} ms"
    )
    print(f"pickup among them, ms: median {statistics.median(waits):.2f}, p99 {p99(waits):.2f}, worst {max(waits):.2f}")
    return {
        "idle_bytes": size,
        "idle_us": per_worker,
        "keeper_us": max(0.0, per_pool * 1000 - watch_ms * 1000 / idlers.WATCH_S),
        "look_us_per_pool": watch_ms * 1000 / sizes.idle_pools,
        "pickup median": statistics.median(waits),
        "pickup p99": p99(waits),
    }


def _memory(server: Server) -> int:
    return int(server.call("INFO", "memory")["used_memory"])


def _watch_ms(server: Server) -> float:
    """What one look at all pools, for lost ones, costs the server; the keepers' own work goes on beside it."""
    with closing(open_backend(server.url)) as store:
        took = []
        for _ in range(20):
            before = _scripts_us(server)
            store.recover_expired()
            took.append((_scripts_us(server) - before) / 1000)
    return min(took)


def _scripts_us(server: Server) -> int:
    return int(server.call("INFO", "commandstats")["cmdstat_evalsha"]["usec"])


def _enqueue_at_pace(server: Server, count: int) -> None:
    """One job every 20 ms, each with the moment of its enqueue call; the last has a second to be found."""
    with closing(open_backend(server.url, producer=True)) as store:
        for _ in range(count):
            store.enqueue([NewJob(id=new_job_id(), type="tasks.noop", payload=repr(time.monotonic()))])
            time.sleep(PACE_S)
        time.sleep(1)


# ---------------------------------------------------------------- what else one Redis carries


def one_producer() -> Found:
    """CPU of the server per enqueued job, one by one and in batches, and the memory that a waiting job takes."""
    with running(DEFAULT_FLAVOUR) as server, closing(open_backend(server.url, producer=True)) as store:
        store.enqueue([_job()])
        single = _server_us(server, 5_000, lambda: [store.enqueue([_job()]) for _ in range(5_000)])
        before = _memory(server)
        batch = _server_us(server, 50_000, lambda: [store.enqueue([_job() for _ in range(10_000)]) for _ in range(5)])
        size = (_memory(server) - before) / 50_000
    print(
        f"enqueue, CPU of the server: {single:.1f} us one by one, {batch:.1f} us in batches; {size:.0f} bytes per pending job"
    )
    return {"enqueue_us": single, "enqueue_many_us": batch, "pending_bytes": size}


def _job() -> NewJob:
    return NewJob(id=new_job_id(), type="tasks.noop", payload=pools.payload_of(100))


def _server_us(server: Server, jobs: int, work: Callable[[], object]) -> float:
    before = pools.cpu_nanoseconds(server.pid)
    work()
    return (pools.cpu_nanoseconds(server.pid) - before) / jobs / 1000


def namespaces_on_a_cluster() -> Found:
    """How thirty namespaces fall on three nodes: each has one hash tag, so it lives on one node as a whole."""
    with cluster(3) as nodes:
        for number in range(30):
            with closing(open_backend(cluster_url(nodes), namespace=f"shop-{number}")) as store:
                store.enqueue([_job()])
        keys = [_keys_of(node) for node in nodes]
    shares = [len({key.partition("}")[0] for key in found}) for found in keys]
    print(f"30 namespaces on a cluster of 3 nodes: {', '.join(map(str, sorted(shares)))}")
    assert sum(shares) == 30
    return {"most": max(shares), "fewest": min(shares)}


def _keys_of(node: Server) -> list[str]:
    return [str(key) for key in node.call("KEYS", "{jobpool:*")]
