"""Ratios to a control in the same run: what a change must not make worse unnoticed. Numbers for people: `python -m tests.bench`.

They fail only where something is grossly off: half of an aim, or what no noise explains. CPU is compared rather than time."""

import statistics
from contextlib import closing

import pytest

from pool.backends.opening import open_backend
from tests.bench import bare, measures, pools
from tests.helpers.servers import DEFAULT_FLAVOUR, running

pytestmark = pytest.mark.serial

RUNS = 3
JOBS = 6_000
ONE_AT_A_TIME = "claims_ahead = 0"
MOST_CPU = 4.0  # of a worker, in times of the bare loop's process
TRIES, CHEAPER = 5, 0.9  # it is 0.5 (Redis) and 0.7 (SQLite)
FEW, MANY = 1_000, 100_000


@pytest.mark.parametrize("workers", [2, 8])
def test_a_job_costs_a_worker_little_more_than_the_bare_loop(workers: int) -> None:
    with running(DEFAULT_FLAVOUR) as server:
        costs, rates = [], []
        for _ in range(RUNS):
            bare.fill_redis(server.port, JOBS)
            control = bare.speed(workers, JOBS, bare.redis_py(server.port))
            product = pools.speed(server, workers, JOBS, settings=ONE_AT_A_TIME)
            costs.append(product.cpu_us / control.cpu_us)
            rates.append(product.per_s / control.per_s)
    cost, rate = statistics.median(costs), statistics.median(rates)
    print(f"N={workers}: CPU {cost:.2f}, jobs per second {rate:.2f} times the bare loop's")
    assert cost < MOST_CPU


@pytest.mark.parametrize("backend", ["sqlite", DEFAULT_FLAVOUR])
def test_claims_ahead_make_short_jobs_cheaper(backend: str) -> None:
    ratios: list[float] = []
    with pools.store_for(backend) as server:
        while len(ratios) < TRIES and min(ratios, default=1.0) >= CHEAPER:
            one = pools.speed(server, 2, JOBS, settings=ONE_AT_A_TIME)
            ahead = pools.speed(server, 2, JOBS)
            ratios.append((ahead.cpu_us + ahead.server_us) / (one.cpu_us + one.server_us))
            print(f"CPU per job {ratios[-1]:.2f}, jobs per second {ahead.per_s / one.per_s:.2f} times those without")
    assert min(ratios) < CHEAPER, ratios


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
