"""How much memory the pool may use: the tightest limit of the cgroups it is in, else what the machine has."""

from dataclasses import dataclass

from pool.supervisor import cgroup
from pool.supervisor.cgroup import Cgroup


@dataclass(frozen=True, slots=True)
class Allowance:
    """`by`: cgroup or machine. `left_bytes` as of now; None where it cannot be read."""

    limit_bytes: int
    by: str
    left_bytes: int | None


def allowance() -> Allowance | None:
    """Read anew at each call; None where nothing can be read."""
    machine = cgroup.ROOT / "proc/meminfo"
    total, available = (cgroup.number_in(machine, name) * 1024 for name in ("MemTotal", "MemAvailable"))
    limited = [(limit, group) for group in cgroup.own_cgroups() if (limit := group.limit_bytes()) is not None]
    tightest = min(limited, key=lambda one: one[0], default=None)
    if tightest is not None and (not total or tightest[0] < total):
        return Allowance(tightest[0], "cgroup", _least_left(limited))
    return Allowance(total, "machine", available) if total else None


def _least_left(limited: list[tuple[int, Cgroup]]) -> int | None:
    uses = [(limit, group.used_bytes()) for limit, group in limited]
    return min((max(0, limit - use) for limit, use in uses if use is not None), default=None)
