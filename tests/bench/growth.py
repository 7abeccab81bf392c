"""How cost grows with workers, payload and pending jobs: jobs per second and CPU per job, as numbers and as plots."""

import json
import statistics
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tests.bench import pages, plots, pools
from tests.bench.bare import Speed
from tests.bench.measures import Found, Options
from tests.helpers.servers import Server

DOCS = pages.DOCS / "plots"
BACKENDS = ("redis", "sqlite")
AHEAD, ONE = "claims ahead", "one at a time"
WAYS = {AHEAD: "", ONE: "claims_ahead = 0"}
COLOURS = {"redis": "#d9534f", "sqlite": "#2f86d6"}
MOST_BYTES = 150_000_000  # of payload in one measurement
KIB = 1024
Measure = Callable[[float, str], list[Speed]]


class Axis(NamedTuple):
    """One thing that grows: its values, how they are written, and how one point is measured."""

    name: str
    title: str
    x_title: str
    values: tuple[float, ...]
    ways: tuple[str, ...]

    def label(self, value: float) -> str:
        if self.name == "pending":
            return f"{value:,.0f}"
        return f"{value:g}"


AXES = (
    Axis("workers", "No-op jobs, by the number of workers", "workers", (1, 2, 4, 8, 16), (AHEAD, ONE)),
    Axis(
        "payload", "No-op jobs on 4 workers, by the size of their payload", "payload, KiB", (0.1, 1, 10, 60), (AHEAD,)
    ),
    Axis("pending", "No-op jobs on 4 workers, by how many more wait", "pending jobs", (1e3, 1e4, 1e5, 1e6), (AHEAD,)),
)
WORKERS = 4


def growth(options: Options) -> Found:
    """Measure one backend (or both), write its numbers, and draw the plots from all numbers that are there."""
    folder = Path(options.out or (tempfile.mkdtemp(prefix="growth-") if options.quick else DOCS))
    folder.mkdir(parents=True, exist_ok=True)
    above = pages.circumstances(options.runs)
    for backend in [options.backend] if options.backend else BACKENDS:
        numbers = {axis.name: _measured(backend, axis, options) for axis in AXES}
        (folder / f"growth-{backend}.json").write_text(json.dumps(numbers, indent=1) + "\n")
    for axis in AXES:
        (folder / f"{axis.name}.svg").write_text(_picture(axis, folder))
    print(f"written to {folder}")
    if folder == DOCS:
        pages.fill("performance.md", "growth", above)
    return {}


# ---------------------------------------------------------------- measuring


def _measured(backend: str, axis: Axis, options: Options) -> dict[str, Any]:
    """Medians of the runs, for each way of claiming."""
    values = _few(axis) if options.quick else axis.values
    jobs, runs = (1500, 1) if options.quick else (options.jobs or 12_000, options.runs)
    told: dict[str, Any] = {"x": list(values), "runs": runs}
    with pools.store_for(backend) as server:
        for way in axis.ways:
            points = [_point(server, axis, value, WAYS[way], jobs, runs) for value in values]
            told[way] = {name: [point[name] for point in points] for name in points[0]}
            print(f"{backend}, {axis.name}, {way}: {json.dumps(told[way])}", flush=True)
    return told


def _few(axis: Axis) -> tuple[float, ...]:
    return axis.values[:-1:2] if axis.name == "pending" else axis.values[::2]


def _point(server: Server | None, axis: Axis, value: float, settings: str, jobs: int, runs: int) -> dict[str, float]:
    speeds = list(_runs(server, axis.name, value, settings, jobs, runs))
    return {
        "per_s": round(statistics.median(speed.per_s for speed in speeds), 1),
        "worker_us": round(statistics.median(speed.cpu_us for speed in speeds), 1),
        "server_us": round(statistics.median(speed.server_us for speed in speeds), 1),
    }


def _runs(server: Server | None, name: str, value: float, settings: str, jobs: int, runs: int) -> Iterator[Speed]:
    """Pools of their own for each run; a million pending jobs are put down once."""
    if name == "pending":
        yield from pools.speeds(server, WORKERS, jobs, runs=runs, settings=settings, left=int(value))
        return
    payload = pools.payload_of(round(value * KIB)) if name == "payload" else pools.PAYLOAD
    jobs = min(jobs, MOST_BYTES // len(payload))
    for _ in range(runs):
        workers = round(value) if name == "workers" else WORKERS
        yield from pools.speeds(server, workers, jobs, settings=settings, payload=payload)


# ---------------------------------------------------------------- drawing


def _picture(axis: Axis, folder: Path) -> str:
    lines, rates, costs = [], [], []
    for backend in BACKENDS:
        file = folder / f"growth-{backend}.json"
        numbers = json.loads(file.read_text())[axis.name] if file.exists() else {"x": []}
        for way in axis.ways:
            found = numbers.get(way, {"per_s": [], "worker_us": [], "server_us": []})
            name = f"{backend.capitalize() if backend == 'redis' else 'SQLite'}, {way}"
            lines.append(plots.Line(name, COLOURS[backend], way == ONE))
            rates.append(_along(axis, numbers["x"], found["per_s"]))
            sums = [mine + its for mine, its in zip(found["worker_us"], found["server_us"], strict=True)]
            costs.append(_along(axis, numbers["x"], sums))
    panels = [plots.Panel("jobs per second", rates), plots.Panel("CPU per job, workers and server, µs", costs)]
    labels = [axis.label(value) for value in axis.values]
    return plots.figure(axis.title, axis.x_title, labels, lines, panels)


def _along(axis: Axis, known: list[float], values: list[float]) -> list[float | None]:
    found = dict(zip(known, values, strict=True)) if values else {}
    return [found.get(value) for value in axis.values]
