"""Limits: how many jobs of a key run at once and start per time; others never wait for them, and nothing leaks."""

from itertools import pairwise

import pytest

from pool.backends.contract import Backend, JobFilter, LimitState, Want
from pool.identity import LaneId
from pool.jobs.job import NewJob
from pool.jobs.lifecycle import Reason, Status
from tests.helpers.builders import Hand, died_working, drain, new_job, new_jobs, put, worker
from tests.helpers.stores import Place, together
from tests.helpers.until import until

RUNNING_2 = {"limit_key": "api", "limit_running": 2}


def limited(count: int, **fields: object) -> list[NewJob]:
    return [new_job(**{**RUNNING_2, **fields}) for _ in range(count)]


def state(store: Backend, key: str = "api") -> LimitState:
    return next(limit for limit in store.limits() if limit.key == key)


# ---------------------------------------------------------------- at once


def test_no_more_than_max_running_are_handed_out_and_an_end_lets_the_next_go(store: Backend, hands) -> None:
    jobs = limited(5)
    store.enqueue(jobs)
    first, second, third = hands(), hands(), hands()
    assert [first.take().job_id, second.take().job_id] == [jobs[0].id, jobs[1].id]
    assert third.claim() is None
    assert (state(store).running, state(store).waiting, state(store).has_room) == (2, 3, False)
    first.complete()
    assert third.take().job_id == jobs[2].id
    assert first.claim() is None


@pytest.mark.parametrize("way", ["fail", "retry later", "give back", "cancelled", "worker lost"])
def test_every_way_out_of_running_makes_room(store: Backend, hands, way: str) -> None:
    jobs = limited(2, limit_running=1)
    store.enqueue(jobs)
    hand, other = hands(), hands()
    hand.take()
    assert other.claim() is None
    if way == "fail":
        hand.fail()
    elif way == "retry later":
        hand.retry(60.0)
    elif way == "give back":
        hand.give_back(60.0)
    elif way == "cancelled":
        store.cancel(jobs[0].id)
        store.recover(died_working(hand, reason=Reason.CANCELLED))
    else:
        store.recover(died_working(hand))
        assert other.take().job_id == jobs[0].id  # back in its old place, before the others
        other.complete()
    assert other.take().job_id == jobs[1].id
    assert state(store).running == 1


def test_settling_and_claiming_in_one_step_takes_the_next_of_the_same_limit(store: Backend, hand: Hand) -> None:
    jobs = limited(3, limit_running=1)
    store.enqueue(jobs)
    assert drain(hand) == [job.id for job in jobs]


def test_jobs_of_other_types_do_not_wait_behind_a_used_up_limit(store: Backend, hands) -> None:
    store.enqueue(limited(300, limit_running=1, priority=50))
    plain = new_jobs(3, priority=10)
    store.enqueue(plain)
    holder = hands()
    assert holder.take().priority == 50
    assert drain(hands()) == [job.id for job in plain]


def test_priority_and_age_decide_within_a_limit(store: Backend, hand: Hand) -> None:
    low, high = limited(2, limit_running=1, priority=0), limited(2, limit_running=1, priority=30)
    store.enqueue([*low, *high])
    assert drain(hand) == [job.id for job in (*high, *low)]


def test_a_key_is_counted_over_all_queues_and_types(store: Backend, hands) -> None:
    store.enqueue([new_job(queue="a", type="x", **RUNNING_2), new_job(queue="b", type="y", **RUNNING_2)])
    store.enqueue(limited(1, queue="c"))
    hands().take(), hands().take()
    assert hands().claim() is None


def test_another_key_has_room_of_its_own(store: Backend, hands) -> None:
    store.enqueue([*limited(2, limit_running=1, limit_key="a"), *limited(2, limit_running=1, limit_key="b")])
    keys = {store.job(hands().take().job_id).limit_key for _ in range(2)}
    assert keys == {"a", "b"}
    assert hands().claim() is None


def test_a_paused_queue_does_not_hold_up_the_limit_in_another(store: Backend, hands) -> None:
    store.enqueue(limited(1, queue="still", limit_running=1))
    store.set_queue("still", paused=True)
    going = limited(1, queue="going", limit_running=1)
    store.enqueue(going)
    assert hands().take().job_id == going[0].id


def test_workers_of_a_priority_range_get_their_own_heads(store: Backend, hands) -> None:
    store.enqueue([*limited(1, priority=30), *limited(1, priority=0)])
    assert hands().take(Want(max_priority=10)).priority == 0


def test_an_explicit_list_of_queues_passes_over_a_used_up_limit(store: Backend, hands) -> None:
    store.enqueue(limited(3, queue="first", limit_running=1))
    second = put(store, queue="second")
    want = Want(("first", "second"))
    assert hands().take(want).queue == "first"
    assert hands().take(want).job_id == second
    assert hands().claim(want) is None


def test_what_waits_for_room_is_pending_counted_listed_cancelled_and_purged(store: Backend, hands) -> None:
    jobs = limited(6, limit_running=1, queue="api")
    store.enqueue(jobs)
    hand = hands()
    hand.take()
    waiting = {job.id for job in jobs[1:]}
    assert [(queue.name, queue.pending, queue.running) for queue in store.queues()] == [("api", 5, 1)]
    assert {job.id for job in store.jobs(JobFilter(status=Status.PENDING)).jobs} == waiting
    assert store.job(jobs[5].id).status is Status.PENDING
    assert store.cancel(jobs[5].id).status is Status.CANCELLED
    assert store.delete([jobs[4].id]) == 1
    assert [queue.pending for queue in store.queues()] == [3]
    assert store.purge("api", statuses=frozenset({Status.PENDING})) == 3
    assert (state(store).waiting, hands().claim()) == (0, None)
    hand.complete()
    assert hands().claim() is None


def test_a_cancelled_head_makes_way_for_the_next(store: Backend, hands) -> None:
    jobs = limited(3, limit_running=1)
    store.enqueue(jobs)
    store.cancel(jobs[0].id)
    assert hands().take().job_id == jobs[1].id


def test_max_pending_counts_what_waits_for_room(store: Backend) -> None:
    from pool.errors import QueueFull

    store.set_queue("default", max_pending=3)
    store.enqueue(limited(3, limit_running=1))
    with pytest.raises(QueueFull):
        store.enqueue(limited(1, limit_running=1))


def test_delayed_revived_and_follow_up_jobs_obey_the_limit_too(store: Backend, hands) -> None:
    failed = limited(2, limit_running=1)
    store.enqueue(failed)
    hand = hands()
    for _ in failed:
        hand.take()
        hand.fail()
    late = limited(2, limit_running=1, delay=0.01)
    store.enqueue(late)
    for job in failed:
        store.revive(job.id)
    until(lambda: store.promote() and store.queues()[0].pending == 4, "the delayed jobs")
    hand.take()
    child = limited(1, limit_running=1)
    other = hands()
    assert other.claim() is None
    hand.settle(children=tuple(child))
    assert other.take().job_id == failed[1].id
    assert hands().claim() is None


def test_the_newest_declaration_of_a_limit_holds(store: Backend, hands) -> None:
    store.enqueue(limited(2, limit_running=1))
    hands().take()
    assert hands().claim() is None
    store.enqueue(limited(1, limit_running=3))
    hands().take(), hands().take()
    assert hands().claim() is None
    assert state(store).max_running == 3


def test_a_lost_reply_does_not_take_room_twice(store: Backend, hands) -> None:
    store.enqueue(limited(3))
    hand = hands()
    claim = hand.take()
    again = store.exchange(hand.lane, hand.request, want=Want()).claim
    assert again is not None and again.job_id == claim.job_id
    assert state(store).running == 1


def test_twenty_processes_never_run_more_than_two_and_run_all(place: Place) -> None:
    store = place.open()
    store.enqueue(limited(60))
    store.close()

    def work(number: int) -> tuple[int, int]:
        mine = place.open()
        hand, most, done = Hand(mine, LaneId(worker(slot=number))), 0, 0
        for _ in range(400):
            if hand.claim() is not None:
                most = max(most, state(mine).running)
                done += hand.complete() is True
            elif state(mine).waiting + state(mine).running == 0:
                break
        return most, done

    results = together(6, work)
    assert max(most for most, _ in results) <= 2
    assert sum(done for _, done in results) == 60


# ---------------------------------------------------------------- per time


def test_a_full_bucket_lets_count_jobs_go_and_the_rest_at_its_rate(store: Backend, hand: Hand) -> None:
    jobs = [new_job(limit_key="api", limit_count=3, limit_per_s=3600.0) for _ in range(5)]
    store.enqueue(jobs)
    plain = put(store)
    for job in jobs[:3]:
        assert hand.take().job_id == job.id
        hand.complete()
    assert hand.take().job_id == plain
    hand.complete()
    assert hand.claim() is None
    limit = state(store)
    assert not limit.has_room and limit.opens_at is not None
    assert 0 < limit.opens_at - store.server_now() <= 1200
    assert (limit.count, limit.per_s, limit.waiting) == (3, 3600.0, 2)


def test_the_keeper_lets_the_next_go_when_the_rate_opens_and_knows_when(store: Backend, hand: Hand) -> None:
    jobs = [new_job(limit_key="api", limit_count=1, limit_per_s=0.2) for _ in range(3)]
    store.enqueue(jobs)
    starts = []
    for job in jobs:
        claim = until(lambda: store.promote() and hand.claim(), "the next start")
        assert claim is not None and claim.job_id == job.id
        starts.append(claim.claimed_at)
        hand.complete()
        if job is not jobs[-1]:
            next_due = store.promote().next_due
            assert next_due is None or next_due - store.server_now() <= 0.2
    assert all(later - sooner >= 0.15 for sooner, later in pairwise(starts))


def test_a_waiting_worker_is_woken_when_room_is_made(store: Backend, stores) -> None:
    from pool.clock import monotonic_now

    store.enqueue(limited(2, limit_running=1))
    hand, sleeper = Hand(store), stores()
    hand.take()
    sleeper.wait(Want(), 0.0)
    assert Hand(sleeper).claim() is None
    hand.complete()
    began = monotonic_now()
    sleeper.wait(Want(), 20.0)
    assert monotonic_now() - began < 10
    assert Hand(sleeper).claim() is not None


def test_rate_and_number_hold_together(store: Backend, hands) -> None:
    store.enqueue([new_job(limit_key="api", limit_count=100, limit_per_s=60.0, limit_running=1) for _ in range(3)])
    hand = hands()
    hand.take()
    assert hands().claim() is None
    hand.complete()
    assert hand.take()


@pytest.mark.parametrize("key", ["", "ключ", "a:b", "with 'quotes' \"and\" \\", "{jobpool:x}:jobs", "a" * 200, "🔑"])
def test_any_text_may_be_a_key(store: Backend, hands, key: str) -> None:
    store.enqueue(limited(2, limit_key=key, limit_running=1))
    assert store.job(hands().take().job_id).limit_key == key
    assert hands().claim() is None
    assert [limit.key for limit in store.limits()] == [key]
