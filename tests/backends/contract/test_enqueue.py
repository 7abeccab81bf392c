"""Enqueue of one job: what is stored, and that saying it twice stores it once."""

import pytest

from pool.backends.contract import Backend
from pool.errors import JobpoolError
from pool.jobs.job import Receipt
from pool.jobs.lifecycle import Status
from tests.helpers.builders import Hand, new_job, put
from tests.helpers.states import unchanged
from tests.helpers.stores import Place, together

GIVEN = (
    *("id", "type", "payload", "queue", "priority", "max_retries", "max_kills", "timeout"),
    *("idempotency_key", "unique_key", "owner", "parent_id"),
)
NOT_YET = (
    *("claimed_at", "started_at", "finished_at", "worker_id"),
    *("reason", "error", "exception", "result", "progress"),
)


def test_every_field_is_stored(store: Backend) -> None:
    job = new_job(
        type="mail.send",
        payload='{"to": "a@example.org",  "n": 1}',
        queue="mail",
        priority=73,
        max_retries=7,
        max_kills=2,
        timeout=33.25,
        expires_in=3600.0,
        idempotency_key="order-17",
        unique_key="mailbox-3",
        owner="shop",
        parent_id="01234567-89ab-7cde-8f01-23456789abcd",
    )
    before = store.server_now()
    assert store.enqueue([job]) == [Receipt(job.id, Status.PENDING)]
    after = store.server_now()
    stored = store.job(job.id)
    for name in GIVEN:
        assert getattr(stored, name) == getattr(job, name), name
    assert (stored.status, stored.claim, stored.retry_count, stored.kill_count) == (Status.PENDING, 0, 0, 0)
    assert before - 0.01 <= stored.created_at <= after + 0.01
    assert before - 0.01 <= stored.run_at <= after + 0.01
    assert stored.expires_at == pytest.approx(stored.created_at + 3600, abs=0.01)
    for name in NOT_YET:
        assert getattr(stored, name) is None, name
    assert (stored.attempts, stored.cancel_requested) == ((), False)


def test_a_delayed_job_is_scheduled_from_the_stores_clock(store: Backend) -> None:
    before = store.server_now()
    job = new_job(delay=500.0)
    assert store.enqueue([job])[0].status is Status.SCHEDULED
    assert before + 499.9 <= store.job(job.id).run_at <= store.server_now() + 500.1


def test_a_job_for_a_moment_is_due_at_that_moment(store: Backend) -> None:
    moment = store.server_now() + 86_400.123
    job = new_job(run_at=moment)
    assert store.enqueue([job])[0].status is Status.SCHEDULED
    assert store.job(job.id).run_at == pytest.approx(moment, abs=0.001)


def test_run_at_wins_over_delay(store: Backend) -> None:
    job = new_job(run_at=store.server_now() - 5, delay=500.0)
    assert store.enqueue([job])[0].status is Status.PENDING


def test_the_expiry_of_a_delayed_job_counts_from_its_enqueue(store: Backend) -> None:
    job = new_job(delay=100.0, expires_in=50.0)
    store.enqueue([job])
    stored = store.job(job.id)
    assert stored.expires_at == pytest.approx(stored.created_at + 50, abs=0.01)


def test_the_same_id_again_changes_nothing_and_gets_the_same_answer(store: Backend) -> None:
    """The reply was lost and the client says it again."""
    job = new_job(idempotency_key="k", unique_key="u")
    first = store.enqueue([job])[0]
    with unchanged(store):
        again = store.enqueue([job])[0]
    assert (again.job_id, again.status) == (first.job_id, first.status)
    assert not again.payload_differs


def test_the_same_id_is_recognised_whatever_became_of_the_job(store: Backend, hand: Hand) -> None:
    job = new_job()
    store.enqueue([job])
    hand.take()
    with unchanged(store):
        assert store.enqueue([job])[0].job_id == job.id
    hand.complete()
    with unchanged(store):
        assert store.enqueue([job])[0].job_id == job.id


def test_an_enqueued_job_is_seen_by_everyone_at_once(store: Backend, stores) -> None:
    other = stores()
    job_id = put(store)
    assert other.job(job_id).status is Status.PENDING
    assert Hand(other).take().job_id == job_id


def test_an_accepted_job_survives_the_client(place: Place) -> None:
    """The client's process ends right after the answer, without closing anything."""
    ids = together(3, lambda _: [put(place.open()) for _ in range(5)])
    store = place.open()
    for job_id in (job_id for batch in ids for job_id in batch):
        assert store.job(job_id).status is Status.PENDING


def test_a_durable_enqueue_is_stored_or_refused_in_words(store: Backend) -> None:
    """With Redis it needs AOF: a server that cannot promise the disk says so instead of pretending."""
    job = new_job()
    try:
        store.enqueue([job], durable=True)
    except JobpoolError as refusal:
        assert str(refusal)
    else:
        assert store.job(job.id).status is Status.PENDING


def test_followers_wait_inside_their_job(store: Backend) -> None:
    after_success, after_failure = new_job(queue="next"), new_job(queue="next")
    put(store, on_success=after_success, on_failure=after_failure)
    assert [(queue.name, queue.pending) for queue in store.queues() if queue.pending] == [("default", 1)]
    assert store.statistics().enqueued == 1


def test_statistics_count_what_was_enqueued(store: Backend) -> None:
    for _ in range(3):
        put(store)
    put(store, delay=1000.0)
    assert store.statistics().enqueued == 4
