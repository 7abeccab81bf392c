"""The `/status` document as Prometheus text. Every scrape is computed anew; nothing is counted here."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate
from typing import Any

from prometheus_client import CollectorRegistry, Metric, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from pool.board.tally import BOUNDS_S, TypeCounts

Document = dict[str, Any]

WORKER_STATES = ("booting", "idle", "busy", "retiring", "parked")
POOL_STATES = ("starting", "ready", "degraded", "draining", "reloading", "stopping")
OUTCOMES = ("completed", "failed", "retried", "cancelled")
QUEUE_COUNTS = ("pending", "scheduled", "running", "overdue")


def metrics_text(status: Document, deaths: Mapping[tuple[str, str], int], tallies: Iterable[TypeCounts] = ()) -> bytes:
    """All metrics of a pool. `deaths`: (group, cause) → how many since the supervisor's start, `tallies` as well."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Scrape(status, deaths, tuple(tallies)))
    return generate_latest(registry)


class _Scrape(Collector):
    """One scrape as the library wants it: a registry of its own, so that an application's metrics do not mix in."""

    def __init__(
        self, status: Document, deaths: Mapping[tuple[str, str], int], tallies: tuple[TypeCounts, ...]
    ) -> None:
        self._status, self._deaths, self._tallies = status, deaths, tallies

    def describe(self) -> list[Metric]:
        return []

    def collect(self) -> Iterator[Metric]:
        yield from _pool(self._status["pool"])
        yield from _memory(self._status["memory"])
        yield from _workers(self._status)
        yield from _jobs(self._status["totals"])
        yield from _queues(self._status["queues"])
        yield from _backend(self._status["backend"])
        yield _deaths(self._deaths)
        yield from _by_type(self._tallies)


def _pool(pool: Document) -> Iterator[Metric]:
    info = GaugeMetricFamily("jobpool_info", "Version and name of the pool; always 1", labels=["pool", "version"])
    info.add_metric([pool["name"], pool["version"]], 1)
    yield info
    yield _states("jobpool_pool_state", "1 for the state the pool is in", POOL_STATES, Counter({pool["state"]: 1}))
    yield GaugeMetricFamily("jobpool_uptime_seconds", "Seconds since the supervisor's start", value=pool["uptime_s"])
    reload = pool["last_reload"]
    ok = 1 if reload is None or reload["ok"] else 0
    yield GaugeMetricFamily("jobpool_last_reload_ok", "0 when the latest reload failed", value=ok)


def _states(name: str, text: str, states: tuple[str, ...], counts: Mapping[str, int]) -> Metric:
    family = GaugeMetricFamily(name, text, labels=["state"])
    for state in states:
        family.add_metric([state], counts.get(state, 0))
    return family


def _memory(memory: Document) -> Iterator[Metric]:
    yield GaugeMetricFamily("jobpool_memory_bytes", "All processes of the pool together", value=memory["used_bytes"])
    if memory["limit_bytes"]:
        limit = memory["limit_bytes"]
        yield GaugeMetricFamily("jobpool_memory_limit_bytes", "What the cgroup or the machine allows", value=limit)
    ceilings = memory["ceilings_bytes"]
    yield GaugeMetricFamily("jobpool_memory_ceilings_bytes", "All workers at their ceilings", value=ceilings)


def _workers(status: Document) -> Iterator[Metric]:
    by_state = GaugeMetricFamily("jobpool_workers", "Worker processes by state", labels=["group", "state"])
    planned = GaugeMetricFamily("jobpool_workers_planned", "How many workers are wanted", labels=["group"])
    restarts = CounterMetricFamily("jobpool_worker_restarts", "Restarts of places that exist now", labels=["group"])
    memory = GaugeMetricFamily("jobpool_worker_memory_bytes", "Size by the group's metric", labels=["group", "slot"])
    for group in status["groups"]:
        mine = [worker for worker in status["workers"] if worker["group"] == group["name"]]
        counts = Counter(worker["state"] for worker in mine)
        for state in WORKER_STATES:
            by_state.add_metric([group["name"], state], counts[state])
        planned.add_metric([group["name"]], group["count"])
        restarts.add_metric([group["name"]], sum({worker["slot"]: worker["restarts"] for worker in mine}.values()))
        for worker in mine:
            if worker["rss_bytes"] and worker["state"] in ("idle", "busy"):
                memory.add_metric([group["name"], str(worker["slot"])], worker["rss_bytes"])
    yield from (by_state, planned, restarts, memory)


def _jobs(totals: Document) -> Iterator[Metric]:
    jobs = CounterMetricFamily("jobpool_jobs", "Jobs of the whole store by outcome", labels=["outcome"])
    for outcome in OUTCOMES:
        jobs.add_metric([outcome], totals.get(outcome, 0))
    yield jobs
    yield CounterMetricFamily("jobpool_jobs_enqueued", "Jobs ever accepted", value=totals.get("enqueued", 0))


def _queues(queues: list[Document]) -> Iterator[Metric]:
    depth = GaugeMetricFamily("jobpool_queue_jobs", "Jobs in a queue", labels=["queue", "status"])
    oldest = GaugeMetricFamily("jobpool_queue_oldest_pending_seconds", "Age of the oldest ready job", labels=["queue"])
    paused = GaugeMetricFamily("jobpool_queue_paused", "1 when the queue is paused", labels=["queue"])
    for queue in queues:
        for status in QUEUE_COUNTS:
            depth.add_metric([queue["name"], status], queue.get(status, 0))
        oldest.add_metric([queue["name"]], queue.get("oldest_pending_s") or 0)
        paused.add_metric([queue["name"]], int(queue.get("paused", False)))
    yield from (depth, oldest, paused)


def _backend(backend: Document) -> Iterator[Metric]:
    yield GaugeMetricFamily("jobpool_backend_up", "1 when the store answered the keeper", value=int(backend["ok"]))
    latency_s = (backend["latency_ms"] or 0) / 1000
    yield GaugeMetricFamily(
        "jobpool_backend_latency_seconds", "Round trip of the keeper's last question", value=latency_s
    )


def _deaths(deaths: Mapping[tuple[str, str], int]) -> Metric:
    family = CounterMetricFamily(
        "jobpool_deaths", "Processes that ended unplanned, by cause", labels=["group", "cause"]
    )
    for (group, cause), count in sorted(deaths.items()):
        family.add_metric([group, cause], count)
    return family


def _by_type(tallies: tuple[TypeCounts, ...]) -> Iterator[Metric]:
    """The attempts of this pool's own workers, added up over all of them."""
    attempts = CounterMetricFamily("jobpool_attempts", "Attempts of this pool's workers", labels=["type", "outcome"])
    run = HistogramMetricFamily("jobpool_run_seconds", "How long attempts ran", labels=["type"])
    wait = HistogramMetricFamily("jobpool_wait_seconds", "From the enqueue to the claim of an attempt", labels=["type"])
    for name in sorted({tally.type for tally in tallies}):
        mine = [tally for tally in tallies if tally.type == name]
        for outcome in mine[0].outcomes:
            attempts.add_metric([name, outcome], sum(tally.outcomes[outcome] for tally in mine))
        _add_histogram(run, name, [tally.run for tally in mine])
        _add_histogram(wait, name, [tally.wait for tally in mine])
    yield from (attempts, run, wait)


def _add_histogram(family: HistogramMetricFamily, name: str, spans: list[tuple[list[int], float]]) -> None:
    below = list(accumulate(sum(counts) for counts in zip(*(buckets for buckets, _ in spans), strict=True)))
    names = [*map(str, BOUNDS_S), "+Inf"]
    family.add_metric([name], list(zip(names, below, strict=True)), sum(total for _, total in spans))
