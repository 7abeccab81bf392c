"""Beats and leases: what a pool holds is compared with the store, and a vanished pool's jobs go to others."""

import pytest

from pool.backends.contract import Backend, BeatAnswer, Held, JobFilter
from pool.identity import LaneId, PoolId, WorkerId, new_pool_id
from pool.jobs.ids import new_job_id
from pool.jobs.job import NewBatch, Outcome, Settlement
from pool.jobs.lifecycle import Status
from tests.helpers.builders import Hand, beat, departure, new_job, new_jobs, numbers_of, put, some_pool
from tests.helpers.states import unchanged
from tests.helpers.until import until

CLEAN = BeatAnswer()


@pytest.fixture
def house() -> PoolId:
    return some_pool()


def _hand(store: Backend, house: PoolId, slot: int = 0, generation: int = 1) -> Hand:
    return Hand(store, LaneId(WorkerId(house, slot, generation)))


def test_a_beat_that_agrees_with_the_store_is_answered_with_nothing(store: Backend, house: PoolId) -> None:
    hand = _hand(store, house)
    assert store.beat(beat(house)) == CLEAN
    put(store)
    hand.take()
    assert store.beat(beat(house, [hand.as_held()])) == CLEAN


def test_a_beating_pool_is_listed_with_its_facts(store: Backend, house: PoolId) -> None:
    store.beat(beat(house, facts='{"version": "1.2", "workers": 8}'))
    [pool] = store.pools()
    assert (pool.pool, pool.lost) == (house, False)
    assert pool.facts == {"version": "1.2", "workers": 8}
    assert 0 <= pool.age_s < 60
    store.beat(beat(house, facts='{"version": "1.3"}'))
    assert store.pools()[0].facts == {"version": "1.3"}


def test_pools_of_one_name_are_told_apart_by_their_life(store: Backend) -> None:
    first, second = new_pool_id("house"), new_pool_id("house")
    store.beat(beat(first))
    store.beat(beat(second))
    assert {pool.pool for pool in store.pools()} == {first, second}


def test_a_held_job_that_moved_on_is_lost(store: Backend, house: PoolId) -> None:
    hand = _hand(store, house)
    put(store)
    hand.take()
    held = hand.as_held()
    store.recover(departure(hand.lane.worker, bar=False))
    _hand(store, some_pool("other")).take()
    assert store.beat(beat(house, [held])) == BeatAnswer(lost=(held,))


@pytest.mark.parametrize("end", ["completed", "failed"])
def test_a_held_job_that_is_over_is_lost(store: Backend, house: PoolId, end: str) -> None:
    hand = _hand(store, house)
    put(store)
    hand.take()
    held = hand.as_held()
    hand.complete() if end == "completed" else hand.fail()
    assert store.beat(beat(house, [held])).lost == (held,)


def test_a_held_job_that_never_was_is_lost(store: Backend, house: PoolId) -> None:
    held = Held(_hand(store, house).lane, new_job_id(), 3)
    assert store.beat(beat(house, [held])).lost == (held,)


def test_a_held_job_under_an_older_claim_is_lost(store: Backend, house: PoolId) -> None:
    hand = _hand(store, house)
    put(store)
    hand.take()
    old = hand.as_held()
    hand.give_back()
    hand.take()
    assert store.beat(beat(house, [old])).lost == (old,)
    assert store.beat(beat(house, [hand.as_held()])) == CLEAN


def test_a_cancelled_running_job_is_told(store: Backend, house: PoolId) -> None:
    hands = [_hand(store, house, slot) for slot in range(3)]
    store.enqueue(new_jobs(3))
    for hand in hands:
        hand.take()
    held = [hand.as_held() for hand in hands]
    store.cancel(held[1].job_id)
    assert store.beat(beat(house, held)) == BeatAnswer(cancelled=(held[1],))
    assert store.beat(beat(house, held)) == BeatAnswer(cancelled=(held[1],))


def test_a_fresh_claim_missing_from_the_beat_is_not_unknown(store: Backend, house: PoolId) -> None:
    """The claim was on the wire when the board was read."""
    hand = _hand(store, house)
    put(store)
    hand.take()
    assert store.beat(beat(house, [], lease_seconds=3600.0)) == CLEAN


def test_an_old_claim_missing_from_the_beat_is_unknown(store: Backend, house: PoolId) -> None:
    hand = _hand(store, house)
    put(store)
    store.beat(beat(house, [], lease_seconds=1.0))
    hand.take()
    held = hand.as_held()
    answer = until(lambda: store.beat(beat(house, [], lease_seconds=1.0)).unknown, "the unknown claim", within=30)
    assert answer == (held,)
    taken = store.recover(departure(hand.lane.worker, lanes=(0,), bar=False))
    assert [each.job_id for each in taken] == [held.job_id]
    assert numbers_of(store.job(held.job_id)) == (Status.PENDING, 0, 0, 0, 0)
    assert store.beat(beat(house, [], lease_seconds=1.0)) == CLEAN


def test_a_job_of_another_pool_is_not_unknown_here(store: Backend, house: PoolId) -> None:
    other = _hand(store, some_pool("other"))
    put(store)
    other.take()
    moment = store.server_now()
    until(lambda: store.server_now() > moment + 0.5, "an old claim")
    assert store.beat(beat(house, [], lease_seconds=1.0)) == CLEAN


def test_a_beat_names_many_held_jobs(store: Backend, house: PoolId) -> None:
    hands = [_hand(store, house, slot) for slot in range(300)]
    store.enqueue(new_jobs(300))
    for hand in hands:
        hand.take()
    assert store.beat(beat(house, [hand.as_held() for hand in hands])) == CLEAN
    gone = hands[7].as_held()
    hands[7].complete()
    rest = [hand.as_held() for hand in hands if hand.held]
    assert store.beat(beat(house, [*rest, gone])) == BeatAnswer(lost=(gone,))


def test_a_job_handed_back_is_not_adopted_by_a_late_beat(store: Backend, house: PoolId) -> None:
    """The store saw the end of this claim: only a claim that the store lost is adopted again."""
    hand = _hand(store, house)
    job_id = put(store)
    hand.take()
    held = hand.as_held()
    hand.give_back()
    assert store.beat(beat(house, [held])).lost == (held,)
    assert store.job(job_id).status is Status.PENDING


def test_a_job_recovered_is_not_adopted_by_a_late_beat(store: Backend, house: PoolId) -> None:
    hand = _hand(store, house)
    job_id = put(store)
    hand.take()
    held = hand.as_held()
    store.recover(departure(hand.lane.worker))
    assert store.beat(beat(house, [held])).lost == (held,)
    assert store.job(job_id).status is Status.PENDING


def test_a_claim_that_a_failover_lost_is_adopted_again(store: Backend, house: PoolId) -> None:
    """The store shows the job pending under an older claim number than the one its holder has."""
    hand = _hand(store, house)
    job_id = put(store)
    held = Held(hand.lane, job_id, 1)  # the store never heard of claim 1
    assert store.beat(beat(house, [held])) == CLEAN
    job = store.job(job_id)
    assert (job.status, job.worker_id, job.claim) == (Status.RUNNING, str(hand.lane), 1)
    assert _hand(store, some_pool("other")).claim() is None
    assert hand.exchange(settlement=_completed(held)).settled is True
    assert store.job(job_id).status is Status.COMPLETED


def test_an_adopted_job_counts_in_its_limit_and_makes_room_when_it_ends(store: Backend, house: PoolId) -> None:
    one_at_a_time = {"limit_key": "api", "limit_running": 1}
    first, second = put(store, **one_at_a_time), put(store, **one_at_a_time)
    hand, other = _hand(store, house), _hand(store, some_pool("other"))
    held = Held(hand.lane, first, 1)  # the store never heard of claim 1
    assert store.beat(beat(house, [held])) == CLEAN
    assert other.claim() is None, "the limit is used up by the adopted job"
    assert (store.limits()[0].running, store.limits()[0].waiting) == (1, 1)
    hand.exchange(settlement=_completed(held))
    assert other.take().job_id == second


def test_a_job_that_waits_for_its_limit_is_adopted_all_the_same(store: Backend, house: PoolId) -> None:
    """Before the failover there was room for it."""
    one_at_a_time = {"limit_key": "api", "limit_running": 1}
    put(store, **one_at_a_time)
    held = Held(_hand(store, house).lane, put(store, **one_at_a_time), 1)
    _hand(store, some_pool("other")).take()
    assert store.beat(beat(house, [held])) == CLEAN
    assert store.job(held.job_id).status is Status.RUNNING
    assert (store.limits()[0].running, store.limits()[0].waiting) == (2, 0)


def test_an_adopted_job_leaves_nothing_undone_at_its_end(store: Backend, house: PoolId) -> None:
    """Its unique key is free again, what follows it is enqueued, its batch is over."""
    batch = NewBatch(id=new_job_id(), on_complete=new_job(queue="after"))
    job = new_job(unique_key="report", on_success=new_job(queue="after"))
    store.enqueue([job], batch=batch)
    hand = _hand(store, house)
    held = Held(hand.lane, job.id, 1)
    store.beat(beat(house, [held]))
    assert hand.exchange(settlement=_completed(held)).settled is True
    assert put(store, unique_key="report") != job.id
    assert store.batch(batch.id).is_over
    assert len(store.jobs(JobFilter(queue="after")).jobs) == 2


def _completed(held: Held) -> Settlement:
    return Settlement(job_id=held.job_id, claim=held.claim, outcome=Outcome.COMPLETED)


# ---------------------------------------------------------------- leaving


def test_a_pool_that_leaves_is_forgotten(store: Backend, house: PoolId) -> None:
    store.beat(beat(house))
    store.leave(house)
    assert store.pools() == []


def test_what_a_leaving_pool_still_holds_goes_back(store: Backend, house: PoolId) -> None:
    hand = _hand(store, house)
    job_id = put(store)
    hand.take()
    store.beat(beat(house, [hand.as_held()]))
    store.leave(house)
    assert store.job(job_id).status is Status.PENDING
    assert store.pools() == []


def test_leaving_does_not_touch_other_pools(store: Backend, house: PoolId) -> None:
    other = some_pool()
    hand = _hand(store, other)
    put(store)
    hand.take()
    store.beat(beat(other, [hand.as_held()]))
    store.beat(beat(house))
    store.leave(house)
    assert [pool.pool for pool in store.pools()] == [other]
    assert hand.complete()


def test_leaving_twice_is_leaving_once(store: Backend, house: PoolId) -> None:
    store.beat(beat(house))
    store.leave(house)
    with unchanged(store):
        store.leave(house)
