"""Claims: who gets which job, in what order, and what a claim carries."""

import pytest

from pool.backends.contract import Backend, Want
from pool.clock import boottime_now
from pool.jobs.job import Outcome
from pool.jobs.lifecycle import Status
from tests.helpers.builders import ANYTHING, Hand, drain, new_job, new_jobs, put, without_clock
from tests.helpers.until import until


def test_an_empty_store_hands_out_nothing(hand: Hand) -> None:
    assert hand.claim() is None
    assert hand.claim(Want(("default", "mail"))) is None


def test_a_claim_carries_what_was_enqueued(store: Backend, hand: Hand) -> None:
    job = new_job(type="mail.send", payload='{"to":"a@example.org"}', priority=30, max_retries=5, timeout=12.5)
    store.enqueue([job])
    before = boottime_now()
    claim = hand.take()
    assert (claim.job_id, claim.type, claim.queue, claim.payload) == (job.id, job.type, "default", job.payload)
    assert (claim.priority, claim.max_retries, claim.timeout) == (30, 5, 12.5)
    assert (claim.attempt, claim.retry_count, claim.kill_count, claim.misfits) == (1, 0, 0, 0)
    assert claim.checkpoint is None and not claim.runs_alone and claim.owner == "local"
    assert before <= claim.claimed_boottime <= boottime_now()
    assert abs(claim.claimed_at - store.server_now()) < 60


def test_a_claimed_job_is_shown_as_running_by_its_lane(store: Backend, hand: Hand) -> None:
    job_id = put(store)
    claim = hand.take()
    job = store.job(job_id)
    assert (job.status, job.worker_id, job.claim) == (Status.RUNNING, str(hand.lane), claim.claim)
    assert job.claimed_at == pytest.approx(claim.claimed_at, abs=0.01)


def test_a_job_is_handed_out_once(store: Backend, hands) -> None:
    put(store)
    assert hands().claim() is not None
    assert hands().claim() is None


def test_the_claim_number_rises_with_every_hand_out_and_is_never_reset(store: Backend, hands) -> None:
    job_id = put(store)
    numbers = []
    for outcome in (Outcome.RETURNED, Outcome.RETRIED, Outcome.RETURNED, Outcome.FAILED):
        hand = hands()
        numbers.append(hand.take().claim)
        hand.settle(outcome)
    store.revive(job_id)
    numbers.append(hands().take().claim)
    assert numbers == sorted(set(numbers)), numbers
    assert numbers[0] >= 1


def test_the_highest_priority_comes_first_then_the_oldest(store: Backend, hand: Hand) -> None:
    ids = [put(store, priority=priority) for priority in (10, 0, 30, 10, 100, 30, 0)]
    assert drain(hand) == [ids[n] for n in (4, 2, 5, 0, 3, 1, 6)]


def test_equal_priorities_are_served_in_the_order_they_came(store: Backend, hand: Hand) -> None:
    jobs = new_jobs(10_000)
    for start in range(0, 10_000, 2_500):
        store.enqueue(jobs[start : start + 2_500])
    wanted = [job.id for job in jobs]
    assert drain(hand) == wanted


def test_the_order_is_that_of_arrival_and_not_that_of_the_ids(store: Backend, hand: Hand) -> None:
    jobs = sorted(new_jobs(50), key=lambda job: job.id, reverse=True)
    store.enqueue(jobs[:25])
    for job in jobs[25:]:
        store.enqueue([job])
    assert drain(hand) == [job.id for job in jobs]


@pytest.mark.parametrize("outcome", [Outcome.RETRIED, Outcome.RETURNED])
@pytest.mark.parametrize("delay", [0.0, 0.05])
def test_a_job_that_comes_back_keeps_its_place(store: Backend, hand: Hand, outcome: Outcome, delay: float) -> None:
    first, second = put(store), put(store)
    assert hand.take().job_id == first
    hand.settle(outcome, delay=delay)
    until(lambda: store.server_now() > store.job(first).run_at, "the end of the wait")
    until(lambda: store.promote().moved == 0, "promotion")
    assert drain(hand) == [first, second]


def test_a_range_of_priorities_leaves_the_others_alone(store: Backend, hands) -> None:
    ids = {priority: put(store, priority=priority) for priority in (0, 9, 10, 20, 29, 30, 100)}
    assert drain(hands(), Want(min_priority=10, max_priority=29)) == [ids[29], ids[20], ids[10]]
    assert drain(hands(), Want(min_priority=30)) == [ids[100], ids[30]]
    assert drain(hands(), Want(max_priority=0)) == [ids[0]]
    assert drain(hands()) == [ids[9]]


def test_a_range_holds_inside_a_strict_list_too(store: Backend, hand: Hand) -> None:
    low = put(store, queue="high", priority=0)
    high = put(store, queue="low", priority=50)
    assert drain(hand, Want(("high", "low"), min_priority=10)) == [high]
    assert store.job(low).status is Status.PENDING


def test_a_due_job_is_claimed_without_promotion(store: Backend, hand: Hand) -> None:
    job_id = put(store, delay=0.1)
    assert store.job(job_id).status is Status.SCHEDULED
    claim = until(hand.claim, "the due job")
    assert claim.job_id == job_id
    assert store.server_now() >= store.job(job_id).run_at


def test_a_job_is_not_handed_out_before_its_time(store: Backend, hand: Hand) -> None:
    put(store, delay=3600)
    put(store, run_at=store.server_now() + 3600)
    assert hand.claim() is None


def test_a_job_due_in_the_past_is_pending_at_once(store: Backend, hand: Hand) -> None:
    job_id = put(store, run_at=store.server_now() - 3600)
    assert store.job(job_id).status is Status.PENDING
    assert hand.take().job_id == job_id


def test_a_due_job_of_higher_priority_goes_before_pending_ones(store: Backend, hand: Hand) -> None:
    late = put(store, priority=90, delay=0.1)
    plain = put(store, priority=10)
    until(lambda: store.server_now() > store.job(late).run_at, "the due time")
    assert drain(hand) == [late, plain]


def test_an_expired_job_is_cancelled_on_the_way(store: Backend, hand: Hand) -> None:
    gone, fresh = put(store, expires_in=0.05), put(store)
    until(lambda: store.server_now() > (store.job(gone).expires_at or 0), "the expiry")
    assert hand.take().job_id == fresh
    until(lambda: hand.store.promote().moved == 0)
    job = store.job(gone)
    assert (job.status, job.reason) == (Status.CANCELLED, "expired")


def test_a_thousand_expired_jobs_do_not_hide_the_next_good_one(store: Backend, hand: Hand) -> None:
    jobs = new_jobs(1_500, expires_in=0.01, priority=50)
    store.enqueue(jobs)
    good = put(store, priority=10)
    until(lambda: store.server_now() > (store.job(jobs[-1].id).expires_at or 0), "the expiry")
    assert until(hand.claim, "the good job").job_id == good


def test_a_lane_that_asks_again_gets_the_job_it_holds(store: Backend, hand: Hand) -> None:
    put(store)
    other = put(store)
    first = hand.take()
    again = hand.take()
    assert (again.job_id, again.claim, again.payload) == (first.job_id, first.claim, first.payload)
    assert store.job(other).status is Status.PENDING


def test_a_lane_that_asks_again_gets_its_job_though_it_wants_others_now(store: Backend, hand: Hand) -> None:
    put(store, queue="a")
    put(store, queue="b")
    first = hand.take(Want(("a",)))
    again = hand.take(Want(("b",), min_priority=5))
    assert (again.job_id, again.claim) == (first.job_id, first.claim)


def test_a_lane_whose_job_was_taken_back_gets_another_when_it_asks_again(store: Backend, hands) -> None:
    from tests.helpers.builders import departure

    first_hand, second_hand = hands(), hands()
    lost = put(store)
    first_hand.take()
    store.recover(departure(first_hand.lane.worker, bar=False))
    assert second_hand.take().job_id == lost
    fresh = put(store)
    assert first_hand.take().job_id == fresh


def test_lanes_of_one_worker_hold_jobs_of_their_own(store: Backend, hands) -> None:
    lanes = [hands(slot=1, lane=lane) for lane in range(4)]
    ids = [put(store) for _ in lanes]
    assert [lane.take().job_id for lane in lanes] == ids
    assert [without_clock(lane.take()).job_id for lane in lanes] == ids  # type: ignore[union-attr]


def test_settling_and_claiming_in_one_step_hands_out_the_next(store: Backend, hand: Hand) -> None:
    first, second = put(store), put(store)
    hand.take()
    answer = hand.settle(want=ANYTHING)
    assert answer.settled is True
    assert answer.claim is not None and answer.claim.job_id == second
    assert store.job(first).status is Status.COMPLETED
    assert store.job(second).status is Status.RUNNING


def test_a_lane_that_returns_a_job_may_be_given_it_again(store: Backend, hand: Hand) -> None:
    job_id = put(store)
    first = hand.take()
    answer = hand.settle(Outcome.RETURNED, want=ANYTHING)
    assert answer.settled and answer.claim is not None
    assert (answer.claim.job_id, answer.claim.claim > first.claim) == (job_id, True)
