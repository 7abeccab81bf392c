"""What the measured costs of one Redis mean for many hosts: sums of products, and which limit comes first."""

from collections.abc import Iterator
from typing import NamedTuple

from tests.bench import idlers, pages
from tests.bench.measures import Found

HOSTS = (10, 100, 300, 1000)
WORKERS = 100
CONNECTIONS_OF_A_KEEPER = 2
CORE_US = 1e6
FULL = 0.7  # of a core: beyond that, what arrives in bursts waits
GIB = 2**30
CLIENTS = 65_000  # what one server is told to take at most, by custom: maxclients, and its limit of open files


class Load(NamedTuple):
    """Of one server with one namespace; shares are of one core."""

    hosts: int
    connections: int
    memory_bytes: float
    idle: float
    keepers: float
    looks: float

    @property
    def at_rest(self) -> float:
        return self.idle + self.keepers + self.looks

    def jobs_per_s(self, job_us: float) -> float:
        return max(0.0, FULL - self.at_rest) * CORE_US / job_us


def load(found: Found, hosts: int, workers: int = WORKERS) -> Load:
    """Keepers' looks at all pools are the only part that grows with the square of the hosts."""
    crowd = hosts * workers
    connections = crowd + CONNECTIONS_OF_A_KEEPER * hosts
    looks = hosts / idlers.WATCH_S * hosts * found["look_us_per_pool"]
    return Load(
        hosts,
        connections,
        connections * found["idle_bytes"],
        crowd * found["idle_us"] / CORE_US,
        hosts * found["keeper_us"] / CORE_US,
        looks / CORE_US,
    )


def job_us(found: Found) -> float:
    """CPU of the server for one job: its enqueue call, its claim and its settlement."""
    return found["enqueue_us"] + found["server_us"]


def measured(found: Found) -> str:
    """What one Redis carries."""
    single = CORE_US / job_us(found)
    batches = CORE_US / (found["enqueue_many_us"] + found["server_us"])
    rows = [
        ("no-op jobs, 8 workers in 1 pool", f"{found['few per_s']:,.0f}/s"),
        (
            f"no-op jobs, {found['workers']:.0f} workers in {found['pools']:.0f} pools",
            f"{found['many per_s']:,.0f}/s, {found['many / few']:.2f} times that",
        ),
        ("server, to hand out and settle a job", f"{found['server_us']:.1f} µs of CPU"),
        ("server, an enqueue call", f"{found['enqueue_us']:.1f} µs of CPU"),
        ("server, a job enqueued in a batch", f"{found['enqueue_many_us']:.1f} µs of CPU"),
        ("so a core of its own carries", f"{single:,.0f} jobs/s enqueued one by one, {batches:,.0f} in batches"),
        ("a pending job with a payload of 100 bytes", f"{found['pending_bytes']:.0f} bytes of memory"),
        ("so a GiB holds", f"{GIB / found['pending_bytes'] / 1e6:.1f} million of them"),
        (
            f"an idle worker, one of {found['crowd']:,.0f}",
            f"{found['idle_bytes'] / 1000:.1f} kB and {found['idle_us']:.1f} µs/s of CPU at the server",
        ),
        ("an idle keeper, its look at all pools left out", f"{found['keeper_us']:.0f} µs/s of CPU at the server"),
        ("that look, every 5 s", f"{found['look_us_per_pool']:.1f} µs of CPU at the server for each pool there is"),
        (
            "an idle keeper on its own host",
            f"{found['keeper ms']:.2f} ms/s of CPU alone, {found['keeper ratio']:.2f} times that among {found['pools']:.0f}",
        ),
        (
            f"pickup of a job among {found['crowd']:,.0f} idle workers",
            f"median {found['pickup median']:.1f} ms, p99 {found['pickup p99']:.1f} ms",
        ),
        ("30 namespaces on a cluster of 3 nodes", f"{found['fewest']:.0f} to {found['most']:.0f} on each"),
    ]
    return pages.table(("what", "measured"), rows)


def predicted(found: Found) -> str:
    """The same for many hosts."""
    loads = [load(found, hosts) for hosts in HOSTS]
    head = ("one server, one namespace", *(f"{one.hosts:,} hosts" for one in loads))
    rows = [
        ("workers", *(f"{one.hosts * WORKERS:,}" for one in loads)),
        ("connections", *(f"{one.connections:,}" for one in loads)),
        ("memory of the connections, GiB", *(f"{one.memory_bytes / GIB:.2f}" for one in loads)),
        ("share of a core: idle workers", *(f"{one.idle:.3f}" for one in loads)),
        ("share of a core: keepers, each for itself", *(f"{one.keepers:.3f}" for one in loads)),
        ("share of a core: keepers, looks at all pools", *(f"{one.looks:.3f}" for one in loads)),
        (f"jobs/s until {FULL:.0%} of a core are in use", *(f"{one.jobs_per_s(job_us(found)):,.0f}" for one in loads)),
    ]
    return f"{pages.table(head, rows)}\n\n{first_limit(found)}"


def first_limit(found: Found) -> str:
    """In words, with the number of hosts at which each limit is met."""
    met = sorted((hosts, name) for name, hosts in _limits(found))
    words = "; ".join(f"{name} at {hosts:,} hosts" for hosts, name in met)
    return f"With {WORKERS} workers a host, limits are met in this order: {words}."


def _limits(found: Found) -> Iterator[tuple[str, int]]:
    yield f"{CLIENTS:,} connections", CLIENTS // (WORKERS + CONNECTIONS_OF_A_KEEPER)
    yield f"{FULL:.0%} of a core at rest", _hosts_until(found, lambda one: one.at_rest > FULL)
    yield "looks at all pools above a tenth of a core", _hosts_until(found, lambda one: one.looks > 0.1)


def _hosts_until(found: Found, is_reached: object) -> int:
    return next(hosts for hosts in range(1, 100_000) if is_reached(load(found, hosts)))  # type: ignore[operator]
