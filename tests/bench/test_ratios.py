"""Ratios to a control in the same run: what a change must not make worse unnoticed. Numbers for people: `python -m tests.bench`.

The aim of 0.9 times the bare loop is not reached yet (docs/performance.md); the floors here are what is."""

import statistics
from contextlib import closing

import pytest

from pool.backends.opening import open_backend
from tests.bench import bare, measures, pools
from tests.helpers.servers import DEFAULT_FLAVOUR, running

pytestmark = pytest.mark.serial

RUNS = 3
JOBS = 6_000
MOST_CPU = 4.0  # of a worker, in times of the bare loop's process
FEW, MANY = 1_000, 100_000


@pytest.mark.parametrize("workers", [2, 8])
def test_a_job_costs_a_worker_little_more_than_the_bare_loop(workers: int) -> None:
    with running(DEFAULT_FLAVOUR) as server:
        costs, rates = [], []
        for _ in range(RUNS):
            bare.fill_redis(server.port, JOBS)
            control = bare.speed(workers, JOBS, bare.redis_py(server.port))
            product = pools.speed(server, workers, JOBS)
            costs.append(product.cpu_us / control.cpu_us)
            rates.append(product.per_s / control.per_s)
    print(
        f"N={workers}: CPU {statistics.median(costs):.2f}, jobs per second {statistics.median(rates):.2f} times the bare loop's"
    )
    assert statistics.median(costs) < MOST_CPU


def test_a_claim_costs_the_same_however_many_wait(flavour: str) -> None:
    payload = '{"n":"' + "x" * 92 + '"}'
    with running(flavour) as server, closing(open_backend(server.url)) as store:
        empty = measures._bytes(server, measures.Path())
        measures._grow(store, FEW, payload)
        few_us = min(measures._step_us(store, payload) for _ in range(5))
        measures._grow(store, MANY - FEW, payload)
        size = (measures._bytes(server, measures.Path()) - empty) / MANY
        many_us = min(measures._step_us(store, payload) for _ in range(5))
    print(f"{flavour}: {few_us:.1f} us at {FEW:,}, {many_us:.1f} us at {MANY:,}; {size:.0f} bytes per pending job")
    # The aim is 1.3, which Valkey's allocator misses now and then; a claim that walked would cost a hundred times as much.
    assert many_us < 2.6 * few_us
    assert size < 600
