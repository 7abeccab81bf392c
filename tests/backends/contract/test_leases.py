"""Leases: the jobs of a pool or holder that is gone go to others, and nobody who lives is robbed."""

from dataclasses import replace

import pytest

from pool.backends.contract import Backend, BeatAnswer, Want
from pool.identity import LaneId, PoolId, WorkerId
from pool.jobs.job import Claim
from pool.jobs.lifecycle import Status
from tests.helpers.builders import Hand, beat, dead_mark, put, some_pool
from tests.helpers.stores import Place, in_child
from tests.helpers.until import until

CLEAN = BeatAnswer()


@pytest.fixture
def house() -> PoolId:
    return some_pool()


def _hand(store: Backend, house: PoolId, slot: int = 0, generation: int = 1) -> Hand:
    return Hand(store, LaneId(WorkerId(house, slot, generation)))


def _hand_of_the_dead(place: Place, house: PoolId) -> Hand:
    """A hand whose process claimed a job and is gone: on SQLite a living one is never robbed."""

    def claim() -> tuple[int, Claim]:
        hand = _hand(place.open(), house)
        return 1, hand.take()

    hand = _hand(place.open(), house)
    hand.request, hand.held = in_child(claim).result()
    return hand


def test_a_vanished_pools_jobs_go_back_at_no_retry(place: Place, store: Backend, stores, house: PoolId) -> None:
    """Its supervisor is dead and its beat stands still for a whole lease."""
    job_id = put(store, max_retries=1)
    hand = _hand_of_the_dead(place, house)
    store.beat(beat(house, [hand.as_held()], mark=dead_mark(), lease_seconds=1.0))
    rescuer = stores()
    [taken] = until(rescuer.recover_expired, "the rescue", within=40)
    assert (taken.job_id, taken.status) == (job_id, Status.PENDING)
    job = store.job(job_id)
    assert (job.status, job.retry_count, job.kill_count, job.loss_count) == (Status.PENDING, 0, 0, 1)
    other = _hand(rescuer, some_pool("other"))
    claim = other.take()
    assert claim.claim > 1
    assert hand.complete() is False
    assert other.complete()


def test_an_at_most_once_job_of_a_vanished_pool_never_runs_again(
    place: Place, store: Backend, stores, house: PoolId
) -> None:
    job_id = put(store, max_retries=0)
    hand = _hand_of_the_dead(place, house)
    store.beat(beat(house, [hand.as_held()], mark=dead_mark(), lease_seconds=1.0))
    rescuer = stores()
    until(rescuer.recover_expired, "the rescue", within=40)
    job = store.job(job_id)
    assert (job.status, job.reason) == (Status.FAILED, "worker_lost")


def test_a_beating_pool_is_never_robbed(store: Backend, stores, house: PoolId) -> None:
    hand = _hand(store, house)
    put(store)
    hand.take()
    rescuer = stores()
    moment = store.server_now()

    def three_leases_have_passed() -> bool:
        assert store.beat(beat(house, [hand.as_held()], mark=dead_mark(), lease_seconds=1.0)) == CLEAN
        assert rescuer.recover_expired() == []
        return store.server_now() > moment + 3.0

    until(three_leases_have_passed)
    assert hand.complete()


def test_a_pool_that_does_not_beat_yet_is_not_robbed_at_once(store: Backend, stores, house: PoolId) -> None:
    """Its workers claim before the keeper's first beat."""
    hand = _hand(store, house)
    put(store)
    hand.take()
    rescuer = stores()
    for _ in range(20):
        assert rescuer.recover_expired() == []
    assert hand.complete()


def test_a_lost_pool_that_holds_nothing_is_forgotten(store: Backend, stores, house: PoolId) -> None:
    store.beat(beat(house, mark=dead_mark(), lease_seconds=1.0))
    rescuer = stores()
    until(lambda: rescuer.recover_expired() == [] and rescuer.pools() == [], "the pool's end", within=40)


def test_a_rescued_pool_that_comes_back_learns_what_it_lost(
    place: Place, store: Backend, stores, house: PoolId
) -> None:
    put(store)
    hand = _hand_of_the_dead(place, house)
    held = hand.as_held()
    store.beat(beat(house, [held], mark=dead_mark(), lease_seconds=1.0))
    rescuer = stores()
    until(rescuer.recover_expired, "the rescue", within=40)
    answer = store.beat(beat(house, [held], mark=dead_mark(), lease_seconds=1.0))
    assert answer.lost == (held,)


# ---------------------------------------------------------------- holders that no pool beats for


def test_a_claim_with_its_own_lease_runs_out_by_itself(store: Backend, house: PoolId) -> None:
    hand = _hand(store, house)
    job_id = put(store)
    hand.take(Want(lease_seconds=0.3))
    [taken] = until(store.recover_expired, "the end of the lease", within=40)
    assert taken.job_id == job_id
    assert (store.job(job_id).status, store.job(job_id).retry_count) == (Status.PENDING, 0)
    assert hand.complete() is False


def test_a_claim_with_its_own_lease_is_left_alone_until_then(store: Backend, house: PoolId) -> None:
    hand = _hand(store, house)
    put(store)
    hand.take(Want(lease_seconds=600.0))
    for _ in range(5):
        assert store.recover_expired() == []
    assert hand.complete()


def test_a_report_renews_a_lease_of_its_own(store: Backend, house: PoolId) -> None:
    """Claims over HTTP are kept by their heartbeat only."""
    hand = _hand(store, house)
    put(store)
    hand.take(Want(lease_seconds=3.0))
    moment = store.server_now()

    def six_seconds_have_passed() -> bool:
        store.report(hand.as_held(), progress=0.5)
        assert store.recover_expired() == []
        return store.server_now() > moment + 6.0

    until(six_seconds_have_passed)
    assert hand.complete()


def test_the_claim_of_a_beating_pool_has_no_lease_of_its_own(store: Backend, house: PoolId) -> None:
    hand = _hand(store, house)
    put(store)
    hand.take()
    held = hand.as_held()
    assert store.beat(beat(house, [held], lease_seconds=600.0)) == CLEAN
    for _ in range(5):
        assert store.recover_expired() == []
    assert replace(held) == hand.as_held()


def test_a_leased_lane_is_known_only_while_it_holds_a_job(store: Backend, house: PoolId) -> None:
    """Each claim over HTTP is a lane of its own: the store must not keep them all."""
    hand = _hand(store, house)
    want = Want(lease_seconds=600.0)
    assert hand.claim(want) is None
    job_id = put(store)
    hand.request = 0  # nothing is remembered of the claim that found nothing
    hand.take(want)
    again = store.exchange(hand.lane, 7, want=want).claim
    assert again is not None
    assert again.job_id == job_id, "as long as it holds the job, it is given that one again"
    hand.request = 7
    assert hand.complete()
    put(store)
    assert store.exchange(hand.lane, 1, want=want).claim is not None
