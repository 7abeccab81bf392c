"""Queues: strict lists, any queue, reserved and paused ones, limits and purge."""

import pytest

from pool.backends.contract import Backend, Want
from pool.errors import QueueFull
from pool.jobs.lifecycle import Status
from tests.helpers.builders import LATER_SECONDS, Hand, drain, new_jobs, put
from tests.helpers.states import make
from tests.helpers.until import until

ALL = frozenset(Status)


def test_any_queue_means_the_highest_priority_of_all_queues(store: Backend, hand: Hand) -> None:
    ids = [put(store, queue=queue, priority=priority) for queue, priority in (("c", 5), ("a", 5), ("b", 9), ("a", 1))]
    assert drain(hand) == [ids[2], ids[0], ids[1], ids[3]]


def test_any_queue_serves_the_oldest_first_across_many_queues(store: Backend, hand: Hand) -> None:
    ids = [put(store, queue=f"q{n * 7 % 13}") for n in range(60)]
    assert drain(hand) == ids


def test_a_list_is_strict_whatever_the_priorities(store: Backend, hand: Hand) -> None:
    low = put(store, queue="low", priority=100)
    default = put(store, queue="default", priority=50)
    high = put(store, queue="high", priority=0)
    high2 = put(store, queue="high", priority=1)
    assert drain(hand, Want(("high", "default", "low"))) == [high2, high, default, low]


def test_a_list_serves_no_other_queue(store: Backend, hands) -> None:
    other = put(store, queue="other", priority=100)
    mine = put(store, queue="mine")
    assert drain(hands(), Want(("mine", "missing"))) == [mine]
    assert store.job(other).status is Status.PENDING


def test_a_later_queue_of_the_list_is_served_when_the_first_is_empty_and_back(store: Backend, hand: Hand) -> None:
    want = Want(("a", "b"))
    second = put(store, queue="b")
    assert hand.take(want).job_id == second
    first, third = put(store, queue="a"), put(store, queue="b")
    assert hand.settle(want=want).claim.job_id == first  # type: ignore[union-attr]
    assert hand.settle(want=want).claim.job_id == third  # type: ignore[union-attr]


def test_any_queue_leaves_out_the_reserved_ones(store: Backend, hands) -> None:
    foreign = put(store, queue="php", priority=100)
    mine = put(store, queue="default")
    assert drain(hands(), Want(reserved=("php", "go"))) == [mine]
    assert drain(hands(), Want(("php",), reserved=("php",))) == [foreign]


def test_due_jobs_of_queues_not_wanted_stay(store: Backend, hand: Hand) -> None:
    from tests.helpers.until import until

    job_id = put(store, queue="other", delay=0.05)
    until(lambda: store.server_now() > store.job(job_id).run_at, "the due time")
    assert hand.claim(Want(("mine",))) is None
    assert hand.take(Want(("other",))).job_id == job_id


@pytest.mark.parametrize("want", [Want(), Want(("a",)), Want(("a", "b"))])
def test_a_paused_queue_hands_out_nothing(store: Backend, hand: Hand, want: Want) -> None:
    put(store, queue="a", priority=100)
    store.set_queue("a", paused=True)
    assert hand.claim(want) is None
    put(store, queue="a")
    assert hand.claim(want) is None


def test_other_queues_are_served_while_one_is_paused(store: Backend, hands) -> None:
    put(store, queue="a", priority=100)
    free = put(store, queue="b")
    store.set_queue("a", paused=True)
    assert drain(hands(), Want(("a", "b"))) == [free]
    free = put(store, queue="b")
    assert drain(hands()) == [free]


def test_a_due_job_of_a_paused_queue_waits(store: Backend, hand: Hand) -> None:
    from tests.helpers.until import until

    store.set_queue("a", paused=True)
    job_id = put(store, queue="a", delay=0.05)
    until(lambda: store.server_now() > store.job(job_id).run_at, "the due time")
    assert hand.claim() is None
    store.promote()
    assert hand.claim() is None
    store.set_queue("a", paused=False)
    assert hand.take().job_id == job_id


def test_a_running_job_of_a_paused_queue_ends_as_usual(store: Backend, hands) -> None:
    hand = hands()
    made = make(store, "held", hand)
    store.set_queue("default", paused=True)
    assert hand.complete()
    assert store.job(made.job_id).status is Status.COMPLETED


def test_a_retry_goes_back_into_the_paused_queue(store: Backend, hands) -> None:
    hand = hands()
    made = make(store, "held", hand)
    store.set_queue("default", paused=True)
    hand.retry()
    assert hands().claim() is None
    store.set_queue("default", paused=False)
    assert hands().take().job_id == made.job_id


def test_a_resumed_queue_serves_in_the_old_order(store: Backend, hand: Hand) -> None:
    ids = [put(store, queue="a") for _ in range(5)]
    store.set_queue("a", paused=True)
    ids += [put(store, queue="a") for _ in range(5)]
    store.set_queue("a", paused=False)
    assert drain(hand) == ids


def test_a_lane_holding_a_job_of_a_paused_queue_is_given_it_again(store: Backend, hand: Hand) -> None:
    made = make(store, "held", hand)
    store.set_queue("default", paused=True)
    assert hand.take().job_id == made.job_id


def test_settings_change_one_at_a_time_and_outlive_the_client(store: Backend, stores) -> None:
    store.set_queue("q", paused=True)
    store.set_queue("q", max_pending=7)
    store.set_queue("q")
    store.close()
    queue = next(queue for queue in stores().queues() if queue.name == "q")
    assert (queue.paused, queue.max_pending, queue.pending) == (True, 7, 0)


def test_a_paused_queue_still_accepts_up_to_its_limit(store: Backend) -> None:
    store.set_queue("q", paused=True, max_pending=2)
    store.enqueue(new_jobs(2, queue="q"))
    with pytest.raises(QueueFull):
        put(store, queue="q")


# ---------------------------------------------------------------- purge


def _one_of_each(store: Backend) -> dict[str, str]:
    ways = ("held", "completed", "failed", "cancelled", "retried", "delayed", "waiting")
    return {way: make(store, way).job_id for way in ways}


@pytest.mark.parametrize("status", list(Status))
def test_purge_removes_the_named_state_and_no_other(store: Backend, status: Status) -> None:
    ids = _one_of_each(store)
    doomed = {job_id for job_id in ids.values() if store.job(job_id).status is status and status is not Status.RUNNING}
    assert store.purge("default", statuses=frozenset({status})) == len(doomed)
    assert store.purge("default", statuses=frozenset({status})) == 0
    from pool.errors import JobNotFound

    for job_id in ids.values():
        if job_id in doomed:
            with pytest.raises(JobNotFound):
                store.job(job_id)
        else:
            assert store.job(job_id).id == job_id


def test_purge_never_removes_a_running_job(store: Backend, hands) -> None:
    hand = hands()
    made = make(store, "held", hand)
    assert store.purge("default", statuses=ALL) == 0
    assert hand.complete()
    assert store.job(made.job_id).status is Status.COMPLETED


def test_purge_leaves_other_queues_alone(store: Backend, hand: Hand) -> None:
    names = ("q", "qq", "q2", "Q", "q:x", "q*", "q%", "q_")
    ids = {name: put(store, queue=name) for name in names}
    assert store.purge("q", statuses=ALL) == 1
    assert drain(hand) == [ids[name] for name in names[1:]]


def test_purge_works_in_bounded_steps_until_nothing_is_left(store: Backend, hand: Hand) -> None:
    store.enqueue(new_jobs(25))
    store.enqueue(new_jobs(10, delay=LATER_SECONDS))
    both = frozenset({Status.PENDING, Status.SCHEDULED})
    removed = []
    while not removed or removed[-1]:
        removed.append(store.purge("default", statuses=both, limit=10))
        assert removed[-1] <= 10
    assert sum(removed) == 35
    assert hand.claim() is None
    assert [(queue.pending, queue.scheduled) for queue in store.queues()] in ([(0, 0)], [])


def test_a_purge_that_has_ended_is_followed_by_a_new_one(store: Backend) -> None:
    """What came after the first is there when the second begins, however soon that is."""
    pending = frozenset({Status.PENDING})
    for _ in range(3):
        store.enqueue(new_jobs(5))
        assert store.purge("default", statuses=pending) == 5
        assert store.purge("default", statuses=pending) == 0


def test_a_purge_ends_though_jobs_keep_coming_and_takes_none_of_them_however_slow_its_caller(store: Backend) -> None:
    store.enqueue(new_jobs(10))
    removed, rounds = 0, 0
    while count := store.purge("default", statuses=frozenset({Status.PENDING}), limit=4):
        removed, rounds = removed + count, rounds + 1
        assert rounds < 10, "it does not end"
        put(store)
        moment = store.server_now()
        until(lambda moment=moment: store.server_now() > moment + 0.1, "a slow caller")
    assert (removed, rounds) == (10, 3)
    assert store.queues()[0].pending == rounds


def test_a_purged_queue_has_room_again(store: Backend) -> None:
    store.set_queue("q", max_pending=2)
    store.enqueue(new_jobs(2, queue="q"))
    store.purge("q", statuses=frozenset({Status.PENDING}))
    store.enqueue(new_jobs(2, queue="q"))


def test_purging_an_unknown_queue_removes_nothing(store: Backend) -> None:
    assert store.purge("nobody", statuses=ALL) == 0
