"""Request numbers: a repeated call of a lane is answered alike and acts once; an older one is refused."""

from contextlib import suppress
from dataclasses import replace

import pytest

from pool.backends.contract import Answer, Backend
from pool.errors import RequestRefused
from pool.jobs.job import Outcome
from pool.jobs.lifecycle import Reason, Status
from tests.helpers.builders import ANYTHING, Hand, departure, failure, new_job, new_jobs, put, settlement, without_clock
from tests.helpers.states import unchanged


def plain(answer: Answer) -> Answer:
    return replace(answer, claim=without_clock(answer.claim))


def test_the_same_claim_request_gets_the_same_job_and_only_one(store: Backend, hand: Hand) -> None:
    """The reply was lost; the worker asks again under the same number."""
    store.enqueue(new_jobs(5))
    first = store.exchange(hand.lane, 1, want=ANYTHING)
    with unchanged(store):
        again = [store.exchange(hand.lane, 1, want=ANYTHING) for _ in range(3)]
    assert [plain(answer) for answer in again] == [plain(first)] * 3
    assert first.claim is not None


def test_the_same_empty_answer_is_given_again_though_a_job_has_come(store: Backend, hand: Hand) -> None:
    assert store.exchange(hand.lane, 1, want=ANYTHING) == Answer(None, None)
    put(store)
    with unchanged(store):
        assert store.exchange(hand.lane, 1, want=ANYTHING) == Answer(None, None)
    assert store.exchange(hand.lane, 2, want=ANYTHING).claim is not None


@pytest.mark.parametrize("outcome", sorted(set(Outcome) - {Outcome.LOST}))
def test_the_same_settlement_request_acts_once(store: Backend, hand: Hand, outcome: Outcome) -> None:
    put(store)
    claim = hand.take()
    word = settlement(claim, outcome, reason=Reason.FATAL_ERROR, cause=failure(), delay=500.0)
    first = store.exchange(hand.lane, 2, settlement=word)
    with unchanged(store):
        again = store.exchange(hand.lane, 2, settlement=word)
    assert first == again == Answer(True, None)


def test_a_settle_and_claim_whose_reply_was_lost_is_answered_whole(store: Backend, hand: Hand) -> None:
    store.enqueue(new_jobs(3))
    word = settlement(hand.take(), result="1")
    first = store.exchange(hand.lane, 2, settlement=word, want=ANYTHING)
    with unchanged(store):
        again = store.exchange(hand.lane, 2, settlement=word, want=ANYTHING)
    assert plain(again) == plain(first)
    assert first.settled is True and first.claim is not None


def test_a_settlement_alone_is_answered_alike_though_the_lane_holds_a_job(store: Backend, hand: Hand) -> None:
    """No claim was asked for the first time, so none is given the second time."""
    store.enqueue(new_jobs(2))
    late = hand.take()
    hand.settle(want=ANYTHING)
    first = store.exchange(hand.lane, 9, settlement=settlement(late))
    with unchanged(store):
        assert store.exchange(hand.lane, 9, settlement=settlement(late)) == first == Answer(False, None)


def test_a_refused_settlement_is_refused_again_under_its_number(store: Backend, hands) -> None:
    put(store)
    slow = hands()
    word = settlement(slow.take())
    store.recover(departure(slow.lane.worker, bar=False))
    hands().take()
    assert store.exchange(slow.lane, 2, settlement=word).settled is False
    with unchanged(store):
        assert store.exchange(slow.lane, 2, settlement=word).settled is False


def test_the_children_of_a_repeated_settlement_are_enqueued_once(store: Backend, hand: Hand) -> None:
    put(store)
    word = settlement(hand.take(), children=(new_job(queue="next"), new_job(queue="next")))
    store.exchange(hand.lane, 2, settlement=word)
    with unchanged(store):
        store.exchange(hand.lane, 2, settlement=word)
    assert [queue.pending for queue in store.queues() if queue.name == "next"] == [2]


def test_the_same_number_does_nothing_new_whatever_it_asks_now(store: Backend, hand: Hand) -> None:
    put(store)
    put(store)
    first = store.exchange(hand.lane, 1, want=ANYTHING)
    assert first.claim is not None
    for other in ({"settlement": settlement(first.claim)}, {"settlement": settlement(first.claim), "want": ANYTHING}):
        with unchanged(store):
            assert store.exchange(hand.lane, 1, **other).settled is not True


def test_an_older_request_is_refused_and_changes_nothing(store: Backend, hand: Hand) -> None:
    """A call of a closed socket arrives after a newer one."""
    put(store)
    put(store)
    claim = hand.take()
    hand.exchange(settlement=settlement(claim), want=ANYTHING)
    for late in (
        {"want": ANYTHING},
        {"settlement": settlement(claim)},
        {"settlement": settlement(claim), "want": ANYTHING},
    ):
        with unchanged(store), pytest.raises(RequestRefused, match=r"request 1 is older than 2"):
            store.exchange(hand.lane, 1, **late)


def test_an_older_settlement_of_a_job_still_held_is_refused_too(store: Backend, hand: Hand) -> None:
    put(store)
    claim = hand.take()
    hand.take()
    with unchanged(store), pytest.raises(RequestRefused):
        store.exchange(hand.lane, 1, settlement=settlement(claim))


def test_numbers_may_have_gaps(store: Backend, hand: Hand) -> None:
    put(store)
    claim = store.exchange(hand.lane, 7, want=ANYTHING).claim
    assert claim is not None
    assert store.exchange(hand.lane, 2**40, settlement=settlement(claim)).settled is True


def test_each_lane_counts_for_itself(store: Backend, hands) -> None:
    lanes = [hands(slot=0, lane=0), hands(slot=0, lane=1), hands(slot=1), hands(slot=0, generation=2)]
    store.enqueue(new_jobs(4))
    assert len({lane.take().job_id for lane in lanes}) == 4


def test_a_repeated_request_through_another_connection_is_the_same_request(stores, hand: Hand) -> None:
    """The worker reconnected (or was answered by another process's connection): only lane and number count."""
    store, other = hand.store, stores()
    store.enqueue(new_jobs(3))
    first = store.exchange(hand.lane, 1, want=ANYTHING)
    with unchanged(store):
        assert plain(other.exchange(hand.lane, 1, want=ANYTHING)) == plain(first)


def test_a_repeated_answer_carries_long_texts_and_every_field_whole(store: Backend, hand: Hand) -> None:
    payload = '{"text":"' + "ä☃🎉\\\\ \\u0000" * 2_000 + '"}'
    store.enqueue([new_job(payload=payload, timeout=1.5, owner="producer-1", priority=99)])
    first = store.exchange(hand.lane, 1, want=ANYTHING)
    again = store.exchange(hand.lane, 1, want=ANYTHING)
    assert plain(again) == plain(first)
    assert again.claim is not None and (again.claim.payload, again.claim.owner) == (payload, "producer-1")


def test_a_request_repeated_after_the_job_was_taken_back_does_not_hold_it_again(store: Backend, hands) -> None:
    """Whatever the old answer says, the fence refuses what is done with it."""
    put(store)
    slow, quick = hands(), hands()
    claim = slow.take()
    store.recover(departure(slow.lane.worker, bar=False))
    quick.take()
    with unchanged(store):
        store.exchange(slow.lane, 1, want=ANYTHING)
        assert slow.exchange(settlement=settlement(claim)).settled is False
    assert store.job(claim.job_id).status is Status.RUNNING


def test_a_late_claim_of_a_lane_that_was_never_known_does_no_harm(store: Backend, hands) -> None:
    """A store need not remember a lane that never claimed: what it is given late, it is given again."""
    put(store)
    holder, stranger = hands(), hands()
    word = settlement(holder.take())
    assert store.exchange(stranger.lane, 5, settlement=word).settled is False
    job_id = put(store)
    with suppress(RequestRefused):
        store.exchange(stranger.lane, 4, want=ANYTHING)
    claim = store.exchange(stranger.lane, 6, want=ANYTHING).claim
    assert claim is not None and claim.job_id == job_id


def test_an_empty_answer_counts_as_a_request_of_a_new_lane(store: Backend, hand: Hand) -> None:
    assert store.exchange(hand.lane, 5, want=ANYTHING).claim is None
    put(store)
    with unchanged(store), pytest.raises(RequestRefused):
        store.exchange(hand.lane, 4, want=ANYTHING)


def test_numbers_are_remembered_over_a_recovery_without_a_bar(store: Backend, hand: Hand) -> None:
    """The lane lives on; what it sent before the recovery must not act after it."""
    put(store)
    word = settlement(hand.take())
    store.exchange(hand.lane, 5, settlement=word)
    store.recover(departure(hand.lane.worker, bar=False))
    put(store)
    for late in ({"want": ANYTHING}, {"settlement": word}):
        with unchanged(store), pytest.raises(RequestRefused):
            store.exchange(hand.lane, 4, **late)
    assert store.exchange(hand.lane, 6, want=ANYTHING).claim is not None
