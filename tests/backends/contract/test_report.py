"""Reports: what a running job says of itself, and what it learns by saying it."""

import pytest

from pool.backends.contract import Backend
from pool.errors import ClaimLost
from pool.jobs.lifecycle import Status
from tests.helpers.builders import (
    Hand,
    departure,
    put,
)
from tests.helpers.states import unchanged


def test_progress_of_a_running_job_is_shown(store: Backend, hand: Hand) -> None:
    job_id = put(store)
    hand.take()
    assert store.report(hand.as_held(), progress=0.25, note="page 5 of 20") is False
    job = store.job(job_id)
    assert (job.progress, job.progress_note) == (0.25, "page 5 of 20")
    assert store.report(hand.as_held(), progress=0.5) is False
    assert store.job(job_id).progress == 0.5


def test_the_next_run_starts_without_the_progress_of_the_last(store: Backend, hand: Hand) -> None:
    job_id = put(store)
    hand.take()
    store.report(hand.as_held(), progress=0.9, note="nearly done")
    hand.retry()
    hand.take()
    job = store.job(job_id)
    assert (job.status, job.progress, job.progress_note) == (Status.RUNNING, None, None)


def test_a_checkpoint_comes_back_with_the_next_claim(store: Backend, hands) -> None:
    put(store)
    first = hands()
    first.take()
    store.report(first.as_held(), checkpoint='{"row": 7000}')
    store.recover(departure(first.lane.worker, started={0: 1}))
    assert hands().take().checkpoint == '{"row": 7000}'


def test_a_report_tells_of_a_cancel(store: Backend, hand: Hand) -> None:
    job_id = put(store)
    hand.take()
    store.cancel(job_id)
    assert store.report(hand.as_held(), progress=0.1) is True
    assert store.report(hand.as_held()) is True


@pytest.mark.parametrize("end", ["completed", "given away", "purged"])
def test_a_report_under_a_lost_claim_says_so_and_creates_nothing(store: Backend, hands, end: str) -> None:
    put(store)
    slow = hands()
    slow.take()
    held = slow.as_held()
    if end == "given away":
        store.recover(departure(slow.lane.worker, bar=False))
        hands().take()
    else:
        slow.complete()
    if end == "purged":
        store.purge("default", statuses=frozenset({Status.COMPLETED}))
    with unchanged(store), pytest.raises(ClaimLost):
        store.report(held, progress=0.9, note="late", checkpoint="{}")
