"""Batches: the callbacks enter with the end of the last member, exactly once, whatever ends it and whoever is killed."""

import pytest

from pool.backends.contract import Backend, JobFilter
from pool.errors import BatchClosed, BatchNotFound, CallerError, QueueFull
from pool.jobs.ids import new_job_id
from pool.jobs.job import NewBatch, NewJob
from pool.jobs.lifecycle import Reason, Status
from tests.helpers.builders import Hand, died_working, new_job, new_jobs, put
from tests.helpers.stores import Place, together
from tests.helpers.until import until


def new_batch(**callbacks: NewJob) -> NewBatch:
    return NewBatch(id=new_job_id(), **callbacks)


def both() -> NewBatch:
    return new_batch(
        on_complete=new_job(type="complete", queue="after"), on_success=new_job(type="success", queue="after")
    )


def followers(store: Backend) -> list[str]:
    return sorted(job.type for job in store.jobs(JobFilter(queue="after")).jobs)


def test_the_callbacks_enter_with_the_completion_of_the_last_member(store: Backend, hand: Hand) -> None:
    batch = both()
    store.enqueue(new_jobs(3), batch=batch)
    for done in range(3):
        state = store.batch(batch.id)
        assert (state.total, state.completed, state.open, state.is_over) == (3, done, 3 - done, False)
        assert followers(store) == []
        hand.take()
        hand.complete()
    assert store.batch(batch.id).is_over
    assert followers(store) == ["complete", "success"]


@pytest.mark.parametrize(
    "way", ["fails", "is cancelled", "expires", "is lost", "is abandoned", "is purged", "is deleted"]
)
def test_every_end_counts_and_only_success_is_success(store: Backend, hands, way: str) -> None:
    batch, good, bad = both(), new_job(queue="a"), new_job(queue="b", max_retries=0, priority=0)
    if way == "expires":
        bad = new_job(queue="b", expires_in=1.5, delay=1.0)  # not before the lines below
    store.enqueue([good, bad], batch=batch)
    hand = hands()
    hand.take()
    hand.complete()
    assert followers(store) == []
    if way == "fails":
        hand.take()
        hand.fail()
    elif way == "is cancelled":
        store.cancel(bad.id)
    elif way == "expires":
        until(lambda: store.promote() and store.job(bad.id).status is Status.CANCELLED, "the expiry")
    elif way == "is lost":
        hand.take()
        store.recover(died_working(hand))
    elif way == "is abandoned":
        hand.take()
        store.cancel(bad.id)
        store.recover(died_working(hand, reason=Reason.CANCELLED))
    elif way == "is purged":
        store.purge("b", statuses=frozenset({Status.PENDING}))
    else:
        store.delete([bad.id])
    state = store.batch(batch.id)
    assert (state.completed, state.failed + state.cancelled, state.is_over) == (1, 1, True)
    assert followers(store) == ["complete"]


def test_a_retried_dead_letter_makes_it_a_success_later_and_completion_is_told_once(store: Backend, hands) -> None:
    batch, jobs = both(), new_jobs(2)
    store.enqueue(jobs, batch=batch)
    hand = hands()
    hand.take(), hand.complete()
    hand.take(), hand.fail()
    assert followers(store) == ["complete"]
    store.revive(jobs[1].id)
    assert store.batch(batch.id).open == 1
    worker = hands()
    while worker.take().job_id != jobs[1].id:
        worker.complete()
    worker.complete()
    assert followers(store) == ["complete", "success"]
    for job in jobs:
        store.delete([job.id])
    assert followers(store) == ["complete", "success"]


def test_a_retry_and_a_hand_back_are_no_end(store: Backend, hand: Hand) -> None:
    batch = both()
    store.enqueue(new_jobs(1), batch=batch)
    hand.take(), hand.retry()
    hand.take(), hand.give_back()
    assert (store.batch(batch.id).open, followers(store)) == (1, [])


def test_a_batch_without_members_is_over_at_once(store: Backend) -> None:
    batch = both()
    assert store.enqueue([], batch=batch) == []
    assert store.batch(batch.id).is_over
    assert followers(store) == ["complete", "success"]


def test_repeating_the_call_changes_nothing_and_other_jobs_are_refused(store: Backend, hand: Hand) -> None:
    batch, jobs = both(), new_jobs(2)
    store.enqueue(jobs, batch=batch)
    again = store.enqueue(jobs, batch=batch)
    assert [(receipt.job_id, receipt.replayed) for receipt in again] == [(job.id, True) for job in jobs]
    with pytest.raises(BatchClosed):
        store.enqueue(new_jobs(1), batch=batch)
    assert store.batch(batch.id).total == 2
    for _ in jobs:
        hand.take(), hand.complete()
    store.enqueue(jobs, batch=batch)
    assert followers(store) == ["complete", "success"]


def test_a_job_that_answers_for_a_key_is_no_member(store: Backend, hand: Hand) -> None:
    put(store, unique_key="taken")
    batch = both()
    store.enqueue([new_job(unique_key="taken"), new_job()], batch=batch)
    assert store.batch(batch.id).total == 1


def test_all_or_nothing_holds_for_batches(store: Backend) -> None:
    store.set_queue("default", max_pending=1)
    batch = both()
    with pytest.raises(QueueFull):
        store.enqueue(new_jobs(2), batch=batch)
    with pytest.raises(BatchNotFound):
        store.batch(batch.id)
    assert followers(store) == []


def test_members_can_be_listed_and_say_so(store: Backend) -> None:
    batch, jobs = new_batch(), new_jobs(5)
    store.enqueue(jobs, batch=batch)
    put(store)
    found, after = [], None
    while True:
        page = store.jobs(JobFilter(batch_id=batch.id), after=after, limit=2)
        found += page.jobs
        after = page.after
        if after is None:
            break
    assert {job.id for job in found} == {job.id for job in jobs}
    assert {job.batch_id for job in found} == {batch.id}
    assert store.jobs(JobFilter(batch_id=new_job_id())).jobs == ()


@pytest.mark.parametrize("batch_id", ["", "no-uuid", "0" * 36])
def test_an_unknown_batch_is_said(store: Backend, batch_id: str) -> None:
    with pytest.raises(BatchNotFound):
        store.batch(batch_id)
    with pytest.raises(CallerError):
        store.enqueue(new_jobs(1), batch=NewBatch(id=batch_id))


def test_a_callback_may_be_a_job_of_a_limit_or_with_follow_ups(store: Backend, hand: Hand) -> None:
    callback = new_job(
        type="complete", queue="after", limit_key="k", limit_running=1, on_success=new_job(queue="after")
    )
    store.enqueue(new_jobs(1), batch=new_batch(on_complete=callback))
    hand.take(), hand.complete()
    assert hand.take().type == "complete"
    hand.complete()
    assert len(followers(store)) == 2


def test_members_that_end_in_many_processes_at_once_call_back_once(place: Place) -> None:
    store, batch = place.open(), both()
    store.enqueue(new_jobs(40), batch=batch)
    store.close()

    def work(number: int) -> int:
        mine = place.open()
        hand, done = Hand(mine), 0
        while hand.claim() is not None and hand.held is not None:
            done += hand.held.queue == "default"
            hand.complete()
        return done

    assert sum(together(6, work)) == 40
    store = place.open()
    assert store.batch(batch.id).completed == 40
    assert followers(store) == ["complete", "success"]


def test_a_batch_is_forgotten_after_its_members(store: Backend, hand: Hand) -> None:
    batch = new_batch()
    store.enqueue(new_jobs(1), batch=batch)
    hand.take(), hand.complete()
    store.forget(completed_s=60, failed_s=60, idempotency_s=60)
    assert store.batch(batch.id).is_over

    def forgotten() -> bool:
        store.forget(completed_s=0, failed_s=0, idempotency_s=0)
        try:
            store.batch(batch.id)
        except BatchNotFound:
            return True
        return False

    assert until(forgotten, "the batch to be forgotten")
