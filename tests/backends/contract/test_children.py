"""Jobs that come from jobs: children in the same step as the settlement, followers after success or failure."""

import pytest

from pool.backends.contract import Backend, Want
from pool.jobs.job import Outcome
from pool.jobs.lifecycle import Reason, Status
from tests.helpers.builders import ANYTHING, Hand, departure, died_working, drain, new_job, new_jobs, put, settlement
from tests.helpers.states import make, unchanged


def test_children_are_there_when_the_parent_is_done(store: Backend, hand: Hand) -> None:
    parent = put(store)
    hand.take()
    children = tuple(new_job(queue="next", priority=n, parent_id=parent) for n in (1, 50))
    assert hand.settle(children=children).settled
    assert store.job(parent).status is Status.COMPLETED
    for child in children:
        stored = store.job(child.id)
        assert (stored.status, stored.parent_id, stored.queue) == (Status.PENDING, parent, "next")
    assert store.statistics().enqueued == 3


def test_a_child_can_be_the_very_next_claim(store: Backend, hand: Hand) -> None:
    put(store)
    hand.take()
    child = new_job()
    answer = hand.settle(children=(child,), want=ANYTHING)
    assert answer.claim is not None and answer.claim.job_id == child.id


def test_children_keep_their_order(store: Backend, hand: Hand) -> None:
    put(store)
    hand.take()
    children = tuple(new_jobs(50))
    hand.settle(children=children)
    assert drain(hand) == [child.id for child in children]


def test_children_may_be_due_later(store: Backend, hand: Hand) -> None:
    put(store)
    hand.take()
    child = new_job(delay=500.0)
    hand.settle(children=(child,))
    assert store.job(child.id).status is Status.SCHEDULED


def test_a_refused_settlement_brings_no_children(store: Backend, hands) -> None:
    put(store)
    slow = hands()
    claim = slow.take()
    store.recover(departure(slow.lane.worker, bar=False))
    hands().take()
    with unchanged(store):
        word = settlement(claim, children=(new_job(),))
        assert slow.exchange(settlement=word).settled is False


def test_a_child_with_a_known_key_yields_the_job_there_is(store: Backend, hand: Hand) -> None:
    unique = put(store, unique_key="u", delay=500.0)
    keyed = put(store, idempotency_key="i", delay=500.0)
    put(store)
    hand.take()
    children = (new_job(unique_key="u"), new_job(idempotency_key="i"), new_job(queue="next"))
    assert hand.settle(children=children).settled
    assert store.statistics().enqueued == 4
    assert {store.job(unique).status, store.job(keyed).status} == {Status.SCHEDULED}
    assert store.job(children[2].id).status is Status.PENDING


def test_a_child_may_take_the_unique_key_of_its_parent(store: Backend, hand: Hand) -> None:
    """The parent settles first: a job that enqueues its own successor."""
    put(store, unique_key="chain")
    hand.take()
    child = new_job(unique_key="chain")
    hand.settle(children=(child,))
    assert store.job(child.id).status is Status.PENDING


def test_a_full_queue_does_not_refuse_a_settlement(store: Backend, hand: Hand) -> None:
    put(store)
    hand.take()
    store.set_queue("full", max_pending=1)
    store.enqueue([new_job(queue="full")])
    children = tuple(new_jobs(3, queue="full"))
    assert hand.settle(children=children).settled
    assert [queue.pending for queue in store.queues() if queue.name == "full"] == [4]


@pytest.mark.parametrize("outcome", [Outcome.FAILED, Outcome.RETRIED])
def test_children_come_with_whatever_settlement_carries_them(store: Backend, hand: Hand, outcome: Outcome) -> None:
    put(store)
    hand.take()
    child = new_job(queue="next")
    assert hand.settle(outcome, reason=Reason.FATAL_ERROR, delay=500.0, children=(child,)).settled
    assert store.job(child.id).status is Status.PENDING


def test_children_of_children(store: Backend, hand: Hand) -> None:
    ids = [put(store)]
    hand.take()
    for _ in range(20):
        child = new_job()
        answer = hand.settle(children=(child,), want=ANYTHING)
        assert answer.settled and answer.claim is not None
        ids.append(answer.claim.job_id)
    hand.complete()
    assert {store.job(job_id).status for job_id in ids} == {Status.COMPLETED}
    assert len(set(ids)) == 21


# ---------------------------------------------------------------- followers


def _family(store: Backend, **fields):
    happy, sad = new_job(queue="happy", unique_key="h"), new_job(queue="sad", type="mail.sorry")
    return put(store, on_success=happy, on_failure=sad, **fields), happy, sad


def _born(store: Backend) -> dict[str, int]:
    return {queue.name: queue.pending for queue in store.queues() if queue.name in ("happy", "sad") and queue.pending}


def test_after_success_the_happy_follower_comes_and_the_other_never(store: Backend, hand: Hand) -> None:
    _, happy, _ = _family(store)
    hand.take()
    hand.complete()
    assert _born(store) == {"happy": 1}
    assert store.job(happy.id).status is Status.PENDING


def test_after_failure_the_sad_follower_comes(store: Backend, hand: Hand) -> None:
    _, _, sad = _family(store)
    hand.take()
    hand.fail()
    assert _born(store) == {"sad": 1}
    assert store.job(sad.id).type == "mail.sorry"


def test_a_follower_may_be_the_very_next_claim(store: Backend, hand: Hand) -> None:
    _, happy, _ = _family(store)
    hand.take()
    answer = hand.settle(want=ANYTHING)
    assert answer.claim is not None and answer.claim.job_id == happy.id


def test_a_follower_names_its_parent(store: Backend, hand: Hand) -> None:
    parent, happy, _ = _family(store)
    hand.take()
    hand.complete()
    assert store.job(happy.id).parent_id == parent


def test_no_follower_comes_while_the_job_may_still_run(store: Backend, hands) -> None:
    _family(store, max_retries=9)
    hand = hands()
    hand.take()
    hand.retry()
    hand.take()
    hand.give_back()
    hand.take()
    store.recover(died_working(hand))
    assert _born(store) == {}


def test_a_job_that_is_lost_for_good_brings_its_sad_follower(store: Backend, hands) -> None:
    _family(store, max_retries=0)
    hand = hands()
    hand.take()
    store.recover(died_working(hand))
    assert _born(store) == {"sad": 1}


@pytest.mark.parametrize("way", ["cancelled", "abandoned"])
def test_a_cancelled_job_brings_no_follower(store: Backend, way: str) -> None:
    make(store, way, on_success=new_job(queue="happy"), on_failure=new_job(queue="sad"))
    assert _born(store) == {}


def test_followers_of_followers(store: Backend, hand: Hand) -> None:
    third = new_job(queue="c")
    second = new_job(queue="b", on_success=third)
    first = put(store, queue="a", on_success=second)
    assert drain(hand) == [first, second.id, third.id]


def test_a_revived_job_brings_its_follower_when_it_succeeds(store: Backend, hands) -> None:
    parent, _, _ = _family(store)
    hand = hands()
    hand.take()
    hand.fail()
    store.revive(parent)
    hand.take(Want(("default",)))
    assert hand.complete()
    assert _born(store) == {"happy": 1, "sad": 1}


def test_followers_and_children_together(store: Backend, hand: Hand) -> None:
    _family(store)
    hand.take()
    child = new_job(queue="child")
    hand.settle(children=(child,))
    assert _born(store) == {"happy": 1}
    assert store.job(child.id).status is Status.PENDING
