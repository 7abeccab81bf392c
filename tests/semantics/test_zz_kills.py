"""Chains, batches and limits while workers are killed at any moment: no child missing or twice, one callback, no leak.

Last in the folder, because the pool that the others share is rough with its workers here.
"""

import contextlib
import json
import os
import random
import signal
import time

from pool.backends.contract import JobFilter
from tests.helpers.house import House


def kill_workers(house: House, seconds: float) -> int:
    """SIGKILL to one worker after the other at random moments."""
    killed, end = 0, time.monotonic() + seconds
    while time.monotonic() < end or killed < 6:
        time.sleep(random.uniform(0.02, 0.2))
        if pids := sorted(house.worker_pids()):
            with contextlib.suppress(ProcessLookupError):
                os.kill(random.choice(pids), signal.SIGKILL)
                killed += 1
    return killed


def test_nothing_of_a_chain_a_batch_or_a_limit_is_lost_or_doubled(house: House) -> None:
    client, tough = house.client, {"max_retries": 100, "max_kills": 100}
    done = client.draft("tasks.quick", {"n": 99}, queue="callback")
    batch = client.batch([("tasks.parent", {}, {**tough, "queue": "chain"}) for _ in range(40)], on_complete=done)
    naps = [client.enqueue("tasks.two_at_once", {"gate": "kills"}, queue="chain", **tough).job_id for _ in range(6)]

    killed = kill_workers(house, 4.0)
    house.release("kills")

    assert killed > 5
    assert batch.wait(90).completed == 40
    for job_id in naps:
        house.wait_until(job_id, "completed")
    house.wait_until(done.id, "completed")
    children = [job for job in house.store.jobs(JobFilter(type="tasks.quick"), limit=10_000).jobs if job.parent_id]
    for parent in batch.jobs():
        assert [child.id for child in children if child.parent_id == parent.id] == [json.loads(parent.result or "")]
    assert len(house.store.jobs(JobFilter(queue="callback")).jobs) == 1
    assert all(limit.running == limit.waiting == 0 for limit in house.store.limits())
