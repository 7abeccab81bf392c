"""Ageing: waiting is weighed against priority, so the longest wait has a bound. The same on every store."""

import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pool.backends.contract import Backend, Want
from tests.helpers.builders import Hand, drain, new_job, put
from tests.helpers.until import until


def pass_time(store: Backend, seconds: float) -> None:
    """Until the store's clock has moved this far."""
    then = store.server_now() + seconds
    until(lambda: store.server_now() > then, "time to pass")


def test_by_default_priorities_are_strict(store: Backend, hand: Hand) -> None:
    low = put(store, priority=0)
    pass_time(store, 0.05)
    high = put(store, priority=1)
    assert store.ageing() == 0
    assert drain(hand) == [high, low]


def test_ten_points_are_worth_the_ageing_time(store: Backend, hand: Hand) -> None:
    store.set_ageing(0.2)
    old_low = put(store, priority=0)
    pass_time(store, 0.25)
    ten_higher, much_higher = put(store, priority=10), put(store, priority=100)
    assert drain(hand) == [much_higher, old_low, ten_higher]


def test_equal_priorities_stay_first_in_first_out(store: Backend, hand: Hand) -> None:
    store.set_ageing(60)
    ids = [put(store, priority=10) for _ in range(20)]
    assert drain(hand) == ids


def test_a_change_holds_at_once_for_what_waits(store: Backend, hand: Hand) -> None:
    low = put(store, priority=0)
    pass_time(store, 0.05)
    high = [put(store, priority=30) for _ in range(2)]
    assert hand.take().job_id == high[0]
    hand.complete()
    store.set_ageing(0.001)
    assert store.ageing() == 0.001
    assert hand.take().job_id == low
    hand.complete()
    store.set_ageing(0)
    low, higher = put(store, priority=0), put(store, priority=99)
    assert drain(hand) == [higher, high[1], low]


def test_it_counts_across_queues_lists_and_ranges(store: Backend, hands) -> None:
    store.set_ageing(0.001)
    low = put(store, queue="b", priority=0)
    pass_time(store, 0.05)
    high, other = put(store, queue="a", priority=90), put(store, queue="c", priority=50)
    assert hands().take(Want(("a",))).job_id == high
    assert hands().take(Want(min_priority=40)).job_id == other
    put(store, queue="a", priority=90)
    assert hands().take().job_id == low


def test_a_queue_that_is_new_or_resumed_ages_too(store: Backend, hand: Hand) -> None:
    store.set_ageing(0.001)
    low = put(store, queue="new", priority=0)
    store.set_queue("new", paused=True)
    pass_time(store, 0.05)
    high = put(store, queue="newer", priority=100)
    store.set_queue("new", paused=False)
    assert drain(hand) == [low, high]


def test_retries_and_delayed_jobs_keep_the_place_of_their_enqueue(store: Backend, hands) -> None:
    store.set_ageing(0.05)
    retried = put(store, priority=0)
    delayed = put(store, priority=0, delay=0.01)
    hand = hands()
    assert hand.take().job_id == retried
    hand.retry()
    pass_time(store, 0.6)
    young = put(store, priority=100)
    assert drain(hands()) == [retried, delayed, young]


def test_reserved_and_paused_queues_are_left_out(store: Backend, hand: Hand) -> None:
    store.set_ageing(1)
    put(store, queue="theirs"), put(store, queue="still")
    store.set_queue("still", paused=True)
    mine = put(store, queue="mine")
    assert drain(hand, Want(reserved=("theirs",))) == [mine]


@pytest.mark.parametrize("ageing_s", [0.0, 0.02])
def test_how_many_stand_before_a_job_is_how_many_are_taken_before_it(store: Backend, hands, ageing_s: float) -> None:
    store.set_ageing(ageing_s)
    ids = []
    for number in range(30):
        ids.append(put(store, priority=(number * 37) % 50))
        if number % 3 == 0:
            pass_time(store, 0.004)
    ahead = {job_id: store.ahead(job_id) for job_id in ids}
    order = drain(hands())
    assert [ahead[job_id] for job_id in order] == list(range(30))
    assert store.ahead(order[0]) is None


@given(arrivals=st.lists(st.integers(0, 100), min_size=2, max_size=40), data=st.data())
@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_job_is_passed_by_one_that_came_later_than_its_bound(
    store: Backend, hands, arrivals: list[int], data: st.DataObject
) -> None:
    """(100 - p) / 10 x ageing after its enqueue, whatever comes and however fast."""
    drain(hands())  # of an example that was broken off
    ageing_s = data.draw(st.sampled_from([0.001, 0.01, 0.1]))
    store.set_ageing(ageing_s)
    hand, born, order = hands(), {}, []
    for number, priority in enumerate(arrivals):
        job_id = put(store, priority=priority)
        born[job_id] = (number, store.job(job_id).created_at, priority)
        if data.draw(st.booleans()):
            time.sleep(0.001)
        if data.draw(st.integers(0, 3)) == 0 and (claim := hand.claim()) is not None:
            order.append(claim.job_id)
            hand.complete()
    order += drain(hands())
    for place, job_id in enumerate(order):
        _, created, priority = born[job_id]
        bound = created + (100 - priority) / 10 * ageing_s
        assert all(born[before][1] <= bound + 1e-6 for before in order[:place])


def test_limits_and_ageing_hold_together(store: Backend, hands) -> None:
    store.set_ageing(0.001)
    first = new_job(priority=0, limit_key="k", limit_running=1)
    second = new_job(priority=50, limit_key="k", limit_running=1)
    store.enqueue([first])
    pass_time(store, 0.05)
    store.enqueue([second])
    hand = hands()
    assert hand.take().job_id == first.id
    assert hands().claim() is None
    hand.complete()
    assert hands().take().job_id == second.id
