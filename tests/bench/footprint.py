"""What a pool takes while it has nothing to do: CPU and wakes of each role in 20 s, and memory in fair shares (PSS)."""

import statistics
import time
from collections.abc import Mapping
from pathlib import Path

from tests.bench import merging, pools
from tests.bench.measures import Found, Options
from tests.helpers.house import House

SETTLED_AFTER_S = 8.0  # boot and its echoes, the first measuring of each worker, are not idleness
IDLE_S = 20.0
FEW, MANY = 8, 16
MIB = 2**20

Roles = Mapping[str, list[int]]


def roles_of(house: House) -> Roles:
    """Role → pids of a pool."""
    status = house.status()
    named = {"supervisor": [house.pid], "keeper": [status["keeper"]["pid"]]}
    return {**named, "workers": [worker["pid"] for worker in status["workers"]]}


def cpu_ms(pid: int) -> float:
    """By the scheduler's clock, all threads: finer than the ticks of /proc/PID/stat."""
    tasks = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(task.read_text().split()[0]) for task in tasks) / 1e6


def wakes(pid: int) -> int:
    """How often it has gone to sleep by itself."""
    tasks = Path(f"/proc/{pid}/task").glob("*/status")
    lines = (line for task in tasks for line in task.read_text().splitlines())
    return sum(int(line.split()[1]) for line in lines if line.startswith("voluntary_ctxt_switches"))


def pss_bytes(pid: int) -> int:
    """Its own pages, and of shared ones its share."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))


def sizes_of(house: House) -> dict[str, float]:
    """PSS of each role, in MiB."""
    return {role: sum(map(pss_bytes, pids)) / MIB for role, pids in roles_of(house).items()}


def idle(options: Options) -> Found:
    """CPU of the idle tree by role, and of the server, in 20 s."""
    trees = []
    with pools.store_for(options.backend) as server, pools.pool_on(server, options.workers) as house:
        house.wait_until(house.enqueue("tasks.noop"), "completed")
        time.sleep(SETTLED_AFTER_S)
        roles = {**roles_of(house), **({"(server)": [server.pid]} if server else {})}
        for run in range(options.runs):
            spent = cpu_in(roles, 4.0 if options.quick else IDLE_S)
            trees.append(sum(ms for role, (ms, _) in spent.items() if role != "(server)"))
            words = (f"{role} {ms:.1f} ms in {count} wakes" for role, (ms, count) in spent.items())
            print(f"run {run + 1}: CPU of the tree {trees[-1]:.1f} ms in 20 s: {', '.join(words)}", flush=True)
    return {"cpu_s_in_20_s": statistics.median(trees) / 1000}


def cpu_in(roles: Roles, seconds: float) -> dict[str, tuple[float, int]]:
    """Milliseconds of processor and wakes of each role in so much time, as for 20 s."""
    before = {role: (sum(map(cpu_ms, pids)), sum(map(wakes, pids))) for role, pids in roles.items()}
    time.sleep(seconds)
    share = IDLE_S / seconds
    return {
        role: (
            (sum(map(cpu_ms, pids)) - before[role][0]) * share,
            round((sum(map(wakes, pids)) - before[role][1]) * share),
        )
        for role, pids in roles.items()
    }


def footprint(options: Options) -> Found:
    """PSS of the tree by role, and what each further worker adds; with `merge`, once the kernel has merged what is alike."""
    trees: dict[int, float] = {}
    if options.merge:
        merging.refuse_without()
    with pools.store_for(options.backend) as server:
        for workers in (FEW, MANY):
            with pools.pool_on(server, workers, environ=merging.MERGED if options.merge else None) as house:
                house.wait_until(house.enqueue("tasks.noop"), "completed")
                if options.merge:
                    merging.let_settle(lambda house=house: sum(sizes_of(house).values()), SETTLED_AFTER_S)
                else:
                    time.sleep(SETTLED_AFTER_S)
                sizes = sizes_of(house)
                trees[workers] = sum(sizes.values())
                words = ", ".join(f"{role} {size:.1f}" for role, size in sizes.items())
                print(f"{workers} workers: PSS of the tree {trees[workers]:.1f} MiB: {words}", flush=True)
    more = (trees[MANY] - trees[FEW]) / (MANY - FEW)
    print(f"each further worker {more:.2f} MiB")
    return {"pss_mib": trees[FEW], "worker_mib": more}
