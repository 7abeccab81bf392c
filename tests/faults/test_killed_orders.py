"""An order over many jobs is killed in the middle of it: what it has done is done, and the same order again does the rest."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections import Counter

import pytest

from pool.client import Client
from pool.jobs.job import NewJob
from tests.faults.conftest import OpenHouse
from tests.helpers.builders import Hand, drain, new_jobs
from tests.helpers.house import House
from tests.helpers.states import every_job
from tests.helpers.stores import in_child
from tests.helpers.until import until

MANY = 600


def killed_midway(house: House, *words: str) -> None:
    """Run the order and kill it as soon as some of the jobs have changed, before all have."""
    before = states(house)
    order = subprocess.Popen(
        [sys.executable, "-m", "pool", *words, "--config", str(house.config_file)],
        cwd=house.folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    while states(house) == before:
        assert order.poll() is None, f"{words} ended with {order.returncode} and changed nothing"
    order.kill()
    assert order.wait(30) == -signal.SIGKILL, f"{words} was over before it could be killed"


def given_again(house: House, *words: str) -> None:
    """As a person would, until the store (which syncs each write) has had the time for all of it."""
    until(lambda: house.cli(*words, check=False).returncode == 0, f"{words} carried out")


def states(house: House) -> tuple[int, int]:
    counts = house.counts()
    return counts["pending"], counts["failed"]


def dead_letters(house: House, count: int) -> list[str]:
    ids = [receipt.job_id for receipt in house.store.enqueue(new_jobs(count))]
    hand = Hand(house.store)
    for _ in ids:
        hand.take()
        hand.fail()
    return ids


def test_a_killed_retry_of_all_dead_letters_is_ended_by_the_next(on_each_store: OpenHouse) -> None:
    house = on_each_store(start=False)
    ids = dead_letters(house, MANY)

    killed_midway(house, "dead", "retry", "--all", "--rate", "200")
    retried, left = states(house)
    assert (retried + left, retried > 0, left > 0) == (MANY, True, True)
    given_again(house, "dead", "retry", "--all")

    assert Counter(drain(Hand(house.store))) == Counter(ids)
    assert all(len(house.job(job).attempts) == 2 for job in ids)


def test_a_killed_purge_is_ended_by_the_next_and_takes_nothing_else(on_each_store: OpenHouse) -> None:
    house = on_each_store(start=False)
    house.store.enqueue(new_jobs(5, queue="other"))
    for number in range(16):
        house.store.enqueue([*new_jobs(999), *new_jobs(1, unique_key=f"key-{number}")])

    killed_midway(house, "purge", "default", "--yes")
    given_again(house, "purge", "default", "--yes")

    assert states(house) == (0, 0)
    assert [job.queue for job in every_job(house.store)] == ["other"] * 5
    again = house.store.enqueue(new_jobs(1, unique_key="key-7"))
    assert not again[0].replayed, "a purged job keeps no key"


@pytest.mark.parametrize("rounds", [6, pytest.param(40, marks=pytest.mark.full)])
@pytest.mark.timeout(300)
def test_a_batch_whose_producer_is_killed_is_there_whole_or_not_at_all_and_once_when_said_again(
    on_each_store: OpenHouse, rounds: int
) -> None:
    house = on_each_store(start=False)
    house.store.queues()
    for number in range(rounds):
        batch = new_jobs(5000, queue=f"q{number}")
        enqueue_killed_after(house.url, batch, 0.02 * number)
        assert pending_in(house, f"q{number}") in (0, len(batch))

        receipts = house.store.enqueue(batch)

        assert [receipt.job_id for receipt in receipts] == [job.id for job in batch]
        assert pending_in(house, f"q{number}") == len(batch)


def enqueue_killed_after(url: str, batch: list[NewJob], seconds: float) -> None:
    child = in_child(lambda: len(Client(url).enqueue_drafts(batch)))
    time.sleep(seconds)  # the moment is the point: before, within or after the step
    os.kill(child.pid, signal.SIGKILL)  # not yet waited for: the pid is still its own
    with contextlib.suppress(AssertionError):
        child.result()


def pending_in(house: House, queue: str) -> int:
    return house.counts(queue)["pending"]
