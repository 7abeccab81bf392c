"""The sentence that says what is wrong, if something is: pure, from a snapshot, the worst first, each with a way out."""

from collections.abc import Iterator
from dataclasses import dataclass

from pool.backends.contract import PoolState
from pool.spoken import duration
from pool.web.dashboard.survey import Snapshot
from pool.why import STALE_BEAT_S, serves

LONG_WAIT_S = 300.0
FAILING_SHARE, FAILING_LEAST = 0.1, 5


@dataclass(frozen=True, slots=True)
class Trouble:
    """One thing that is wrong. `is_bad`: jobs do not get done; else somebody should look some time today."""

    says: str
    do: str
    link: str = ""
    is_bad: bool = True


def troubles(now: Snapshot) -> list[Trouble]:
    """Everything that is wrong, the worst first; empty when all is well."""
    return sorted(_found(now), key=lambda trouble: not trouble.is_bad)


def all_is_well(now: Snapshot) -> str:
    """The sentence for a good day."""
    workers = worker_counts(now)
    busy = workers.get("busy", 0)
    waiting = now.total("pending")
    queue = f"{waiting:,} jobs wait" if waiting else "nothing waits"
    return f"All is well: {sum(workers.values())} workers, {busy} busy, {queue}, nothing is overdue."


def worker_counts(now: Snapshot) -> dict[str, int]:
    """Workers of all living pools by state."""
    counts: dict[str, int] = {}
    for pool in living(now):
        for state, count in (pool.facts.get("workers") or {}).items():
            counts[str(state)] = counts.get(str(state), 0) + int(count)
    return counts


def living(now: Snapshot) -> list[PoolState]:
    return [pool for pool in now.pools if not pool.lost and pool.age_s < STALE_BEAT_S]


def _found(now: Snapshot) -> Iterator[Trouble]:
    if now.trouble:
        yield Trouble(f"The store does not answer: {now.trouble}. What you see is old.", "Look with: jobpool doctor")
        return
    yield from _of_pools(now)
    yield from _of_queues(now)
    yield from _of_our_pool(now)
    yield from _of_failures(now)


def _of_pools(now: Snapshot) -> Iterator[Trouble]:
    if not living(now):
        yield Trouble("No pool is running on this store: nothing is being worked off.", "Start one: jobpool start")
    for pool in now.pools:
        if pool.lost:
            name = f"{pool.pool.name} on {pool.pool.host}"
            says = f"Pool {name} is lost: no sign of life for {duration(pool.age_s)}. Its jobs go to the others."
            yield Trouble(says, "Look at that host", "/ui/pools", is_bad=False)


def _of_queues(now: Snapshot) -> Iterator[Trouble]:
    alive = living(now)
    for queue in now.queues:
        link = f"/ui/queues#{queue.name}"
        if queue.paused:
            yield Trouble(
                f"Queue {queue.name} is paused; {queue.pending:,} jobs wait.", "Resume it", link, is_bad=False
            )
        elif queue.pending and alive and not any(serves(pool, queue.name) for pool in alive):
            says = f"No running pool serves queue {queue.name}; {queue.pending:,} jobs wait in it."
            yield Trouble(says, f'Add "{queue.name}" to [workers] queues', link)
        elif queue.overdue:
            says = f"{queue.overdue:,} jobs of {queue.name} are overdue: due for more than a second and not started."
            yield Trouble(says, "Too few workers, or none that serve it", link)
        elif (queue.oldest_pending_s or 0) > LONG_WAIT_S:
            says = f"The oldest job of {queue.name} has waited for {duration(queue.oldest_pending_s)}."
            yield Trouble(says, "More workers: jobpool scale N", link, is_bad=False)


def _of_our_pool(now: Snapshot) -> Iterator[Trouble]:
    pool = (now.status or {}).get("pool") or {}
    for problem in pool.get("problems") or ():
        yield Trouble(f"Pool {pool.get('name')}: {problem}.", "See its workers", "/ui/pools")
    if pool.get("state") == "degraded" and not pool.get("problems"):
        says = f"Pool {pool.get('name')} is degraded: a worker died and its place is being filled."
        yield Trouble(says, "See its workers", "/ui/pools", is_bad=False)
    last = pool.get("last_reload") or {}
    if last and not last.get("ok"):
        yield Trouble(
            f"The last reload failed: {last.get('error')}", "Correct the file, then: jobpool reload", "", False
        )
    if pool.get("state") == "draining":
        yield Trouble("The pool is draining: it takes no new jobs.", "End it with: jobpool undrain", "/ui/pools", False)


def _of_failures(now: Snapshot) -> Iterator[Trouble]:
    if now.statistics is None or not now.statistics.hours:
        return
    hour = now.statistics.hours[-1]
    failed, completed = int(hour["failed"]), int(hour["completed"])
    if failed >= FAILING_LEAST and failed > FAILING_SHARE * (failed + completed):
        says = f"{failed:,} of {failed + completed:,} jobs that ended in this hour failed for good."
        yield Trouble(says, "See the dead letters", "/ui/dead", is_bad=False)
