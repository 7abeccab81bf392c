"""Cancel: at once before a start, a flag while running, and a flag that no way back to pending loses."""

import pytest

from pool.backends.contract import Backend
from pool.errors import IllegalMove, JobNotFound
from pool.jobs.job import Outcome
from pool.jobs.lifecycle import Reason, Status
from tests.helpers.builders import LATER_SECONDS, Hand, departure, died_working, drain, failure, put
from tests.helpers.states import make, unchanged


@pytest.mark.parametrize("delay", [0.0, LATER_SECONDS])
def test_a_waiting_job_is_cancelled_at_once_and_never_runs(store: Backend, hand: Hand, delay: float) -> None:
    job_id = put(store, delay=delay)
    other = put(store)
    shown = store.cancel(job_id)
    assert (shown.id, shown.status, shown.reason) == (job_id, Status.CANCELLED, Reason.CANCELLED)
    assert shown == store.job(job_id)
    assert shown.finished_at is not None
    assert drain(hand) == [other]


def test_a_running_job_is_flagged_and_runs_on(store: Backend, hand: Hand) -> None:
    made = make(store, "held", hand)
    shown = store.cancel(made.job_id)
    assert (shown.status, shown.cancel_requested) == (Status.RUNNING, True)
    assert shown.worker_id == str(hand.lane)
    assert store.job(made.job_id).cancel_requested


def test_asking_twice_to_cancel_a_running_job_is_asking_once(store: Backend, hand: Hand) -> None:
    made = make(store, "flagged", hand)
    shown = store.cancel(made.job_id)
    assert (shown.status, shown.cancel_requested) == (Status.RUNNING, True)


@pytest.mark.parametrize("outcome", [Outcome.COMPLETED, Outcome.FAILED])
def test_a_flagged_job_that_ends_by_itself_keeps_its_end(store: Backend, hand: Hand, outcome: Outcome) -> None:
    made = make(store, "flagged", hand)
    assert hand.settle(outcome, reason=Reason.FATAL_ERROR if outcome is Outcome.FAILED else None).settled
    assert store.job(made.job_id).status == outcome.value


@pytest.mark.parametrize("outcome", [Outcome.RETRIED, Outcome.RETURNED, Outcome.CANCELLED])
@pytest.mark.parametrize("delay", [0.0, LATER_SECONDS])
def test_a_flagged_job_never_goes_back(store: Backend, hand: Hand, outcome: Outcome, delay: float) -> None:
    made = make(store, "flagged", hand)
    assert hand.settle(outcome, delay=delay, cause=failure()).settled is True
    job = store.job(made.job_id)
    assert (job.status, job.reason) == (Status.CANCELLED, Reason.CANCELLED)
    assert hand.claim() is None


@pytest.mark.parametrize("started", [True, False])
def test_a_flagged_job_whose_worker_dies_is_cancelled(store: Backend, hand: Hand, started: bool) -> None:
    made = make(store, "flagged", hand)
    taken = store.recover(died_working(hand) if started else departure(hand.lane.worker))
    assert [(each.job_id, each.status) for each in taken] == [(made.job_id, Status.CANCELLED)]
    assert store.job(made.job_id).reason is Reason.CANCELLED


def test_a_revived_job_has_lost_its_old_flag(store: Backend, hands) -> None:
    made = make(store, "abandoned", hands())
    store.revive(made.job_id)
    hand = hands()
    hand.take()
    assert store.report(hand.as_held()) is False
    assert not store.job(made.job_id).cancel_requested
    hand.retry()
    assert store.job(made.job_id).status is not Status.CANCELLED


def test_a_job_of_another_owner_is_not_found(store: Backend) -> None:
    job_id = put(store, owner="shop")
    with unchanged(store), pytest.raises(JobNotFound):
        store.cancel(job_id, owner="blog")
    assert store.cancel(job_id, owner="shop").status is Status.CANCELLED


def test_a_running_job_of_another_owner_is_not_found_either(store: Backend, hand: Hand) -> None:
    made = make(store, "held", hand, owner="shop")
    with unchanged(store), pytest.raises(JobNotFound):
        store.cancel(made.job_id, owner="blog")


def test_a_job_of_another_owner_that_is_over_is_not_found_rather_than_over(store: Backend) -> None:
    made = make(store, "completed", owner="shop")
    with pytest.raises(JobNotFound):
        store.cancel(made.job_id, owner="blog")


def test_cancelling_what_is_over_says_in_which_state_it_is(store: Backend) -> None:
    made = make(store, "completed")
    with unchanged(store), pytest.raises(IllegalMove, match=f"cannot cancel job {made.job_id}: it is completed"):
        store.cancel(made.job_id)


def test_cancelled_jobs_are_counted(store: Backend) -> None:
    store.cancel(put(store))
    store.cancel(put(store, delay=100.0))
    assert store.statistics().cancelled == 2


def test_a_cancelled_job_has_left_its_queue(store: Backend) -> None:
    store.cancel(put(store))
    store.cancel(put(store, delay=100.0))
    assert [(queue.pending, queue.scheduled) for queue in store.queues()] in ([(0, 0)], [])
