"""Batches enter whole or not at all, in input order, and an empty one touches nothing."""

from dataclasses import replace

import pytest

from pool.backends.contract import MAX_BATCH, Backend
from pool.errors import CallerError, QueueFull
from tests.helpers.builders import Hand, drain, new_job, new_jobs, put
from tests.helpers.states import unchanged
from tests.helpers.stores import Place, together


def test_ids_come_back_in_input_order(store: Backend) -> None:
    jobs = [new_job(queue=f"q{n % 3}", priority=n % 7, delay=float(n % 2) * 1000) for n in range(100)]
    receipts = store.enqueue(jobs)
    assert [receipt.job_id for receipt in receipts] == [job.id for job in jobs]
    assert [receipt.status for receipt in receipts] == [store.job(job.id).status for job in jobs]


def test_the_jobs_of_a_batch_are_served_in_their_order(store: Backend, hand: Hand) -> None:
    jobs = new_jobs(500)
    store.enqueue(jobs)
    assert drain(hand) == [job.id for job in jobs]


def test_an_empty_batch_touches_nothing(store: Backend) -> None:
    put(store)
    with unchanged(store):
        assert store.enqueue([]) == []
        assert store.enqueue([], refuse_above=0) == []


def test_the_largest_batch_enters(store: Backend) -> None:
    jobs = new_jobs(MAX_BATCH)
    assert len(store.enqueue(jobs)) == MAX_BATCH
    assert store.statistics().enqueued == MAX_BATCH
    assert [queue.pending for queue in store.queues()] == [MAX_BATCH]


def test_one_more_than_the_largest_batch_is_refused(store: Backend) -> None:
    with unchanged(store), pytest.raises(CallerError, match=r"10[,_ ]?000"):
        store.enqueue(new_jobs(MAX_BATCH + 1))


def test_a_batch_is_refused_when_a_queue_is_longer_than_the_caller_allows(store: Backend) -> None:
    store.enqueue(new_jobs(6))
    with unchanged(store), pytest.raises(QueueFull) as refused:
        store.enqueue(new_jobs(3), refuse_above=5)
    assert (refused.value.queue, refused.value.pending, refused.value.limit) == ("default", 6, 5)


def test_a_batch_enters_when_the_queue_is_as_long_as_the_caller_allows(store: Backend) -> None:
    store.enqueue(new_jobs(5))
    assert len(store.enqueue(new_jobs(3), refuse_above=5)) == 3
    assert len(store.enqueue([new_job(queue="other")], refuse_above=0)) == 1


def test_a_full_queue_in_the_middle_refuses_the_whole_batch(store: Backend) -> None:
    store.enqueue(new_jobs(6, queue="full"))
    batch = [new_job(queue="a"), new_job(queue="full"), new_job(queue="b")]
    with unchanged(store), pytest.raises(QueueFull, match="full"):
        store.enqueue(batch, refuse_above=5)


def test_scheduled_and_running_jobs_do_not_fill_a_queue(store: Backend, hands) -> None:
    store.enqueue(new_jobs(20, delay=1000.0))
    store.enqueue(new_jobs(6))
    hands().take()
    assert store.enqueue([new_job()], refuse_above=5)


def test_a_queues_own_limit_refuses_the_whole_batch(store: Backend) -> None:
    store.set_queue("mail", max_pending=3)
    store.enqueue(new_jobs(3, queue="mail"))
    with unchanged(store), pytest.raises(QueueFull, match="mail"):
        store.enqueue([new_job(queue="other"), new_job(queue="mail"), new_job(queue="other")])


def test_a_batch_that_would_outgrow_the_queues_own_limit_is_refused(store: Backend) -> None:
    """`refuse_above` looks at the queue before the batch; `max_pending` is a promise about the queue after it."""
    store.set_queue("mail", max_pending=10)
    store.enqueue(new_jobs(8, queue="mail"))
    with unchanged(store), pytest.raises(QueueFull):
        store.enqueue(new_jobs(5, queue="mail"))
    store.enqueue(new_jobs(2, queue="mail"))
    assert [queue.pending for queue in store.queues() if queue.name == "mail"] == [10]


def test_a_full_queue_refuses_delayed_jobs_too(store: Backend) -> None:
    """The limit is about the queue, not about when the job is due."""
    store.set_queue("mail", max_pending=2)
    store.enqueue(new_jobs(2, queue="mail"))
    with unchanged(store), pytest.raises(QueueFull, match="mail"):
        put(store, queue="mail", delay=1000.0)
    with unchanged(store), pytest.raises(QueueFull, match="mail"):
        store.enqueue([new_job(queue="mail", delay=1000.0)], refuse_above=1)


def test_room_in_a_limited_queue_comes_back_with_each_claim(store: Backend, hand: Hand) -> None:
    store.set_queue("default", max_pending=2)
    store.enqueue(new_jobs(2))
    with pytest.raises(QueueFull):
        put(store)
    hand.take()
    put(store)
    with pytest.raises(QueueFull):
        put(store)
    store.set_queue("default", max_pending=0)
    put(store)


def test_a_known_job_in_a_batch_for_a_full_queue_is_answered(store: Backend) -> None:
    """The client repeats an accepted call whose reply was lost; meanwhile the queue has filled up."""
    jobs = new_jobs(3)
    store.enqueue(jobs)
    store.enqueue(new_jobs(5))
    with unchanged(store):
        assert [receipt.job_id for receipt in store.enqueue(jobs, refuse_above=5)] == [job.id for job in jobs]


def test_a_batch_said_again_stores_it_once(store: Backend) -> None:
    jobs = [*new_jobs(5), new_job(unique_key="u"), new_job(idempotency_key="i")]
    first = store.enqueue(jobs)
    with unchanged(store):
        again = store.enqueue(jobs)
    assert [receipt.job_id for receipt in again] == [receipt.job_id for receipt in first]


def test_the_same_job_twice_in_one_batch_is_stored_once(store: Backend) -> None:
    job = new_job()
    assert [receipt.job_id for receipt in store.enqueue([job, new_job(), job])][::2] == [job.id, job.id]
    assert store.statistics().enqueued == 2


def test_the_same_keys_twice_in_one_batch_answer_with_the_first(store: Backend) -> None:
    jobs = [
        new_job(idempotency_key="i"),
        new_job(idempotency_key="i"),
        new_job(unique_key="u"),
        new_job(unique_key="u"),
    ]
    receipts = store.enqueue(jobs)
    assert [receipt.job_id for receipt in receipts] == [jobs[0].id, jobs[0].id, jobs[2].id, jobs[2].id]
    assert [receipt.replayed for receipt in receipts] == [False, True, False, True]
    assert store.statistics().enqueued == 2


@pytest.mark.parametrize("fault", ["priority", "payload"])
def test_a_job_that_cannot_be_stored_in_the_middle_keeps_the_others_out(store: Backend, fault: str) -> None:
    bad = {"priority": "high'; DROP TABLE jobs; --", "payload": '{"text": "\ud800"}'}[fault]
    middle = replace(new_job(), **{fault: bad})
    before = store.statistics().enqueued
    try:
        store.enqueue([new_job(), middle, new_job()])
    except CallerError:
        assert store.statistics().enqueued == before
        assert store.queues() == []
    else:
        assert store.job(middle.id).payload == middle.payload, "neither refused nor stored as it is"


def test_batches_of_many_processes_enter_whole(place: Place) -> None:
    sizes = [1, 7, 100, 333]

    def work(number: int) -> int:
        store = place.open()
        for size in sizes:
            store.enqueue(new_jobs(size, queue=f"q{number}"))
        return sum(sizes)

    assert sum(together(4, work)) == 4 * sum(sizes)
    store = place.open()
    assert [queue.pending for queue in store.queues()] == [sum(sizes)] * 4


def test_the_limit_holds_when_many_processes_enqueue_at_once(place: Place) -> None:
    place.open().set_queue("default", max_pending=50)

    def work(number: int) -> int:
        store, accepted = place.open(), 0
        for _ in range(30):
            try:
                put(store)
            except QueueFull:
                continue
            accepted += 1
        return accepted

    assert sum(together(4, work)) == 50


def test_lowering_a_limit_below_the_queues_length_keeps_its_jobs(store: Backend) -> None:
    store.enqueue(new_jobs(3))
    store.set_queue("default", max_pending=1)
    queue = store.queues()[0]
    assert (queue.name, queue.pending, queue.max_pending) == ("default", 3, 1)
