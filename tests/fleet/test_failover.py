"""A failover that loses acknowledged writes, under a whole pool: what docs/redis.md promises of it."""

from collections.abc import Callable

import pytest

from pool.backends.contract import JobFilter
from tests.helpers.house import House
from tests.helpers.servers import DEFAULT_FLAVOUR, SentinelHouse, sentinel_house
from tests.helpers.until import until

OpenHouse = Callable[..., House]


def replicated(family: SentinelHouse) -> bool:
    sent = family.primary.call("INFO", "replication")
    return sent["slave0"]["offset"] == sent["master_repl_offset"]


def fail_over(family: SentinelHouse) -> None:
    """The primary is gone; the replica, with what it knew, takes its place."""
    family.primary.kill()
    until(lambda: family.primary_port() == family.replica.port, "the replica named primary", within=60)
    until(lambda: family.replica.call("ROLE")[0] == "master", "the replica primary", within=60)


@pytest.mark.timeout(180)
def test_a_lost_claim_is_adopted_and_a_lost_enqueue_is_gone(open_house: OpenHouse) -> None:
    """The replica hears nothing from before the claim on: it has the job waiting, and knows nothing of its run."""
    with sentinel_house(DEFAULT_FLAVOUR) as family:
        house = open_house(workers=1, backend=family.url)
        house.store.set_queue("default", paused=True)
        held = house.enqueue("tasks.hold", {"gate": "a"})
        until(lambda: replicated(family), "the job at the replica")
        family.replica.call("REPLICAOF", "127.0.0.1", "1")  # it follows nobody: what comes now, it never hears
        lost = house.enqueue("tasks.quick", priority=0)
        house.store.set_queue("default", paused=False)
        house.wait_for_worker_of(held)

        fail_over(family)

        until(lambda: house.status()["backend"]["ok"], "the pool at the new primary")
        until(lambda: house.job(held).status.value == "running", "the job adopted")
        house.release("a")
        done = house.wait_until(held, "completed")
        assert (done.retry_count, len(house.runs(held))) == (0, 1)
        assert lost not in {job.id for job in house.store.jobs(JobFilter()).jobs}
        house.store.set_queue("default", paused=False)
        house.wait_until(house.enqueue("tasks.quick"), "completed")
