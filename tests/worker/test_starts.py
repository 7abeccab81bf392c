"""Between the claim and the start: a stop, an old claim, a kill."""

import json
import os
import random
import signal
import time

import pytest

from pool.jobs.lifecycle import Status
from tests.helpers.hired import Shop
from tests.helpers.until import until


def starts(shop: Shop) -> list[int]:
    path = shop.folder / "ledger"
    return [int(line.split()[0]) for line in path.read_text().splitlines()] if path.exists() else []


def put_short_jobs(shop: Shop, count: int) -> list[str]:
    ledger = str(shop.folder / "ledger")
    return [shop.enqueue("short", json.dumps({"ledger": ledger, "number": n})) for n in range(count)]


@pytest.mark.parametrize("delay_ms", [0, 3, 7, 13, 29, 61, 117])
def test_a_stop_at_any_moment_loses_no_job_and_charges_none(shop: Shop, delay_ms: int) -> None:
    jobs = put_short_jobs(shop, 20)
    worker = shop.hire()
    time.sleep(delay_ms / 1000)  # the moment is the subject of the test, not a wait for a fact

    assert worker.stop() == 0

    done = [job for job in jobs if shop.job(job).status is Status.COMPLETED]
    left = [job for job in jobs if shop.job(job).status is Status.PENDING]
    assert len(done) + len(left) == 20
    assert len(starts(shop)) == len(done)
    assert all(shop.job(job).retry_count == shop.job(job).kill_count == 0 for job in jobs)


@pytest.mark.full
def test_kills_at_random_moments_lose_no_job(shop: Shop) -> None:
    jobs = put_short_jobs(shop, 60)
    dice = random.Random(7)
    for _ in range(25):
        worker = shop.hire()
        time.sleep(dice.uniform(0, 0.1))
        worker.kill()
        shop.recover(worker)
    shop.hire()
    until(lambda: not any(shop.job(job).status.is_live for job in jobs), "the end of all jobs")
    assert {shop.job(job).status for job in jobs} == {Status.COMPLETED}


def test_a_worker_stopped_for_long_makes_sure_of_its_claim_before_the_start(shop: Shop) -> None:
    """Frozen between claim and start, its job given to another: it must not start it a second time."""
    config = shop.config({"backend": {"url": shop.url, "lease": 1}})
    jobs = put_short_jobs(shop, 400)
    worker = shop.hire(config)
    until(lambda: len(starts(shop)) > 5, "work")
    os.kill(worker.pid, signal.SIGSTOP)
    time.sleep(0.6)  # more than a third of the lease
    os.kill(worker.pid, signal.SIGCONT)
    until(lambda: not any(shop.job(job).status.is_live for job in jobs), "the end of all jobs")
    assert sorted(starts(shop)) == list(range(400))


def test_an_at_most_once_job_that_started_is_failed_when_its_worker_dies(shop: Shop) -> None:
    ledger = shop.folder / "ledger"
    job = shop.enqueue("held", json.dumps({"ledger": str(ledger), "gate": str(shop.folder / "never")}), max_retries=0)
    worker = shop.hire()
    until(
        lambda: ledger.exists() and ledger.read_text(),
        "the first line of the job: its start stands on the board before that",
    )
    worker.kill()
    shop.recover(worker)
    assert shop.job(job).status is Status.FAILED
    assert len(ledger.read_text().split()) == 1
