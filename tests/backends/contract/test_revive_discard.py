"""Dead letters: a person sends them back to work, or throws them away."""

import pytest

from pool.backends.contract import Backend
from pool.jobs.lifecycle import Reason, Status
from tests.helpers.builders import Hand, departure, died_working, drain, failure, put
from tests.helpers.states import make


@pytest.mark.parametrize("way", ["failed", "cancelled", "abandoned", "discarded"])
def test_a_revived_job_starts_afresh(store: Backend, hands, way: str) -> None:
    made = make(store, way, hands(), queue="mail", priority=44)
    shown = store.revive(made.job_id)
    assert shown == store.job(made.job_id)
    assert (shown.status, shown.queue, shown.priority) == (Status.PENDING, "mail", 44)
    assert (shown.retry_count, shown.kill_count, shown.misfits, shown.loss_count) == (0, 0, 0, 0)
    assert (shown.reason, shown.finished_at, shown.worker_id, shown.cancel_requested) == (None, None, None, False)
    hand = hands()
    claim = hand.take()
    assert (claim.job_id, claim.attempt) == (made.job_id, 1)
    assert hand.complete()


def test_reviving_resets_what_was_used_up(store: Backend, hands) -> None:
    job_id = put(store, max_retries=1, max_kills=2)
    for _ in range(2):
        hand = hands()
        hand.take()
        store.recover(died_working(hand))
    job = store.job(job_id)
    assert (job.status, job.retry_count, job.kill_count) == (Status.FAILED, 1, 2)
    store.revive(job_id)
    for _ in range(2):
        hand = hands()
        claim = hand.take()
        store.recover(died_working(hand))
    assert (claim.retry_count, claim.kill_count) == (1, 1)
    assert store.job(job_id).reason is Reason.WORKER_LOST


def test_reviving_resets_misfits_and_losses(store: Backend, hands) -> None:
    job_id = put(store)
    hand = hands()
    for _ in range(3):
        hand.take()
        hand.give_back(misfit=True, cause=failure(reason=Reason.UNKNOWN_TYPE))
    hand.take()
    store.recover(departure(hand.lane.worker, started=None))
    other = hands()
    other.take()
    other.fail(Reason.UNKNOWN_TYPE)
    store.revive(job_id)
    job = store.job(job_id)
    assert (job.misfits, job.loss_count) == (0, 0)
    assert hands().take().misfits == 0


def test_the_history_is_kept(store: Backend, hands) -> None:
    made = make(store, "failed", hands())
    store.revive(made.job_id)
    hand = hands()
    hand.take()
    hand.complete()
    assert [attempt.outcome for attempt in store.job(made.job_id).attempts] == ["failed", "completed"]


def test_a_revived_job_may_get_another_payload(store: Backend, hands) -> None:
    made = make(store, "failed", hands(), payload='{"amount": "ten"}')
    shown = store.revive(made.job_id, payload='{"amount": 10}')
    assert shown.payload == '{"amount": 10}'
    assert hands().take().payload == '{"amount": 10}'


def test_the_old_claim_of_a_revived_job_is_worth_nothing(store: Backend, hands) -> None:
    slow = hands()
    job_id = put(store, max_retries=0)
    old = slow.take()
    store.recover(died_working(slow, bar=False))
    store.revive(job_id)
    new = hands().take()
    assert new.claim > old.claim
    assert slow.complete() is False


def test_an_expired_job_that_is_revived_does_not_expire_again_at_once(store: Backend, hand: Hand) -> None:
    from tests.helpers.until import until

    job_id = put(store, expires_in=0.01)
    until(lambda: store.promote().moved >= 0 and store.job(job_id).status is Status.CANCELLED, "the expiry")
    store.revive(job_id)
    assert hand.take().job_id == job_id


def test_a_discarded_job_is_cancelled_and_stays_so(store: Backend, hands) -> None:
    made = make(store, "failed", hands())
    shown = store.discard(made.job_id)
    assert shown == store.job(made.job_id)
    assert (shown.status, shown.reason) == (Status.CANCELLED, Reason.DISCARDED)
    assert hands().claim() is None


def test_a_discarded_job_is_no_dead_letter(store: Backend) -> None:
    made = make(store, "failed")
    assert [queue.failed for queue in store.queues()] == [1]
    store.discard(made.job_id)
    assert [queue.failed for queue in store.queues()] in ([0], [])


def test_revived_jobs_are_served_with_the_others(store: Backend, hands) -> None:
    made = make(store, "failed", hands(), priority=50)
    low = put(store, priority=10)
    store.revive(made.job_id)
    assert drain(hands()) == [made.job_id, low]
