"""The simulated idle workers do what workers do: they sleep on the bell, run what comes, and hand it in."""

import time
from contextlib import closing

from pool.backends.opening import open_backend
from pool.identity import new_pool_id
from tests.bench import idlers
from tests.helpers.builders import put
from tests.helpers.servers import DEFAULT_FLAVOUR, running
from tests.helpers.until import until

POOLS, WORKERS, JOBS = 2, 5, 30


def test_simulated_workers_run_every_job_and_then_sleep_on_the_bell_again() -> None:
    names = [new_pool_id(f"idle-{number}") for number in range(POOLS)]
    with (
        running(DEFAULT_FLAVOUR) as server,
        closing(open_backend(server.url, producer=True)) as store,
        idlers.crowd(server.url, names, WORKERS) as crowd,
        idlers.keepers(server.url, names),
    ):
        for _ in range(JOBS):
            put(store, payload=repr(time.monotonic()))
        until(lambda: store.statistics().completed == JOBS, "all jobs completed")
        until(lambda: server.call("INFO", "clients")["blocked_clients"] == POOLS * WORKERS, "all asleep")
        waits = crowd.end()
    assert len(waits) == JOBS
    assert min(waits) > 0
