"""No-op jobs per second of a whole pool beside the bare loops, turn by turn: one claim at a time, and with claims ahead."""

import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path

from tests.bench import bare, pools
from tests.bench.bare import Speed
from tests.bench.measures import Found, Options
from tests.helpers.servers import Server

Turn = Callable[[int], Speed]
Told = dict[str, list[Speed]]
ONE, AHEAD = "one at a time", "claims ahead"
CONTROLS = {"redis-py": bare.redis_py, "raw socket": bare.raw_socket}
FUSED = "sqlite fused"


def throughput(options: Options) -> Found:
    """Prints every run, then the pool's ratios to each control; returns the medians."""
    told = compare(options.backend, options.workers, options.jobs or 20_000, options.runs)
    found: Found = {}
    for mine in (ONE, AHEAD):
        found[f"{mine} per_s"] = statistics.median(speed.per_s for speed in told[mine])
        found[f"{mine} fairness"] = statistics.median(speed.fairness for speed in told[mine])
        for control in told.keys() - {ONE, AHEAD}:
            found[f"{mine} / {control}"] = statistics.median(ratios(told[mine], told[control]))
            print(_sentence(f"{mine} against {control}, N={options.workers}", told[mine], told[control]))
    return found


def compare(backend: str, workers: int, jobs: int, runs: int) -> Told:
    """Everyone in each run, so that what else the machine does meets all alike."""
    told: Told = {}
    with pools.store_for(backend) as server, tempfile.TemporaryDirectory() as folder:
        turns = turns_of(server, Path(folder) / "bare.db", jobs)
        for run in range(runs):
            for name, turn in turns.items():
                told.setdefault(name, []).append(turn(workers))
            print(f"run {run + 1}: " + "  ".join(f"{name} {speeds[-1]}" for name, speeds in told.items()), flush=True)
    return told


def turns_of(server: Server | None, path: Path, jobs: int) -> dict[str, Turn]:
    """The controls of this store and the pool both ways, each as a function of the number of processes."""
    mine: dict[str, Turn] = {
        ONE: lambda workers: pools.speed(server, workers, jobs, settings="claims_ahead = 0"),
        AHEAD: lambda workers: pools.speed(server, workers, jobs),
    }
    if server is None:
        return {FUSED: lambda workers: _fused(path, workers, jobs), **mine}
    controls = {name: _redis_turn(server, loop, jobs) for name, loop in CONTROLS.items()}
    return {**controls, **mine}


def _fused(path: Path, workers: int, jobs: int) -> Speed:
    bare.fill_sqlite(path, jobs)
    return bare.speed(workers, jobs, bare.sqlite_fused(path))


def _redis_turn(server: Server, loop: Callable[[int], bare.Loop], jobs: int) -> Turn:
    def turn(workers: int) -> Speed:
        bare.fill_redis(server.port, jobs)
        return bare.speed(workers, jobs, loop(server.port))

    return turn


def ratios(mine: list[Speed], control: list[Speed]) -> list[float]:
    """Of jobs per second, run by run."""
    return [one.per_s / other.per_s for one, other in zip(mine, control, strict=True)]


def _sentence(name: str, mine: list[Speed], control: list[Speed]) -> str:
    found = ratios(mine, control)
    costs = [one.cpu_us / other.cpu_us for one, other in zip(mine, control, strict=True)]
    return (
        f"{name}: {statistics.median(found):.2f} times as fast (from {min(found):.2f} to {max(found):.2f}), "
        f"{statistics.median(costs):.2f} times its CPU"
    )
