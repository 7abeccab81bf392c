"""Departures: what becomes of the jobs of a worker that is gone, what it costs them, and who is barred."""

from dataclasses import replace

import pytest

from pool.backends.contract import MAX_POOL_LOSSES, Backend, Recovered
from pool.jobs.job import Cause, Outcome
from pool.jobs.lifecycle import Reason, Status, after
from pool.jobs.retry import Counts, after_loss
from tests.helpers.builders import (
    ANYTHING,
    Hand,
    departure,
    died_working,
    drain,
    new_jobs,
    numbers_of,
    put,
)
from tests.helpers.states import unchanged

ENDINGS = (Reason.WORKER_LOST, Reason.TIMEOUT, Reason.MEMORY_LIMIT, Reason.CANCELLED, Reason.INTERRUPTED)
MODES = ("unstarted", "started", "shared", "board lost")
BUDGETS = {
    "at most once": {"max_retries": 0},
    "fresh": {"max_retries": 3},
    "last retry used": {"max_retries": 1},
    "no kill allowed": {"max_retries": 9, "max_kills": 1},
}


# ---------------------------------------------------------------- the table of costs


def _spend(hand: Hand, budget: str) -> None:
    if budget == "last retry used":
        hand.take()
        hand.retry()


def _departure_for(mode: str, reason: Reason, hand: Hand, neighbour: Hand):
    if mode == "board lost":
        return departure(hand.lane.worker, reason, started=None)
    hands = {"unstarted": [], "started": [hand], "shared": [hand, neighbour]}[mode]
    started = {each.lane.lane: each.held.claim for each in hands if each.held}
    return departure(hand.lane.worker, reason, started=started)


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("reason", ENDINGS)
def test_a_loss_costs_what_the_rule_says(store: Backend, hands, reason: Reason, mode: str, budget: str) -> None:
    for flagged in (False, True):
        hand, neighbour = hands(lane=0), None
        neighbour = hands(slot=hand.lane.worker.slot, lane=1)
        job_id = put(store, **BUDGETS[budget])
        _spend(hand, budget)
        hand.take()
        if mode == "shared":
            put(store, max_retries=50, max_kills=50)
            neighbour.take()
        if flagged:
            store.cancel(job_id)
        before = store.job(job_id)
        taken = store.recover(_departure_for(mode, reason, hand, neighbour))

        counts = Counts(before.retry_count, before.max_retries, before.kill_count, before.max_kills, before.loss_count)
        loss = after_loss(
            counts,
            reason,
            started=mode != "unstarted",
            board_lost=mode == "board lost",
            shared=mode == "shared",
            cancel_requested=flagged,
        )
        status = after(loss.move, Status.RUNNING)
        wanted = (status, loss.counts.retry_count, loss.counts.kill_count, loss.counts.loss_count, 0)
        job = store.job(job_id)
        assert numbers_of(job) == wanted, f"flagged={flagged}"
        assert job.worker_id is None
        if status is Status.PENDING:
            assert job.claimed_at is None
        else:
            assert job.reason is loss.reason and job.finished_at is not None
        mine = [each for each in taken if each.job_id == job_id]
        assert mine == [Recovered(job_id, status, str(hand.lane.worker), str(loss.reason))] or (
            mine == [Recovered(job_id, status, str(hand.lane), str(loss.reason))]
        )
        if status is Status.PENDING:
            claim = hands().take()
            assert (claim.job_id, claim.runs_alone) == (job_id, loss.runs_alone)
        drain(hands())


def test_a_started_mark_of_an_older_claim_is_no_start(store: Backend, hands) -> None:
    """The board still shows the lane's last job; the claim in hand had not begun."""
    hand = hands()
    put(store)
    old = hand.take()
    hand.give_back()
    new = hand.take()
    assert new.claim > old.claim
    store.recover(departure(hand.lane.worker, started={0: old.claim}))
    job = store.job(new.job_id)
    assert numbers_of(job) == (Status.PENDING, 0, 0, 0, 0)


def test_a_claim_that_never_started_leaves_no_attempt(store: Backend, hands) -> None:
    hand = hands()
    job_id = put(store)
    hand.take()
    store.recover(departure(hand.lane.worker, started={}))
    job = store.job(job_id)
    assert job.attempts == ()
    assert job.error is None


def test_an_at_most_once_job_that_never_started_is_handed_out_again(store: Backend, hands) -> None:
    hand = hands()
    job_id = put(store, max_retries=0)
    hand.take()
    store.recover(departure(hand.lane.worker, started={}))
    assert hands().take().job_id == job_id


@pytest.mark.parametrize("reason", [Reason.WORKER_LOST, Reason.TIMEOUT, Reason.MEMORY_LIMIT, Reason.INTERRUPTED])
def test_an_at_most_once_job_that_had_started_never_runs_again(store: Backend, hands, reason: Reason) -> None:
    hand = hands()
    job_id = put(store, max_retries=0)
    hand.take()
    store.recover(died_working(hand, reason=reason))
    job = store.job(job_id)
    assert (job.status, job.reason) == (Status.FAILED, reason)
    assert hands().claim() is None


def test_a_job_that_kills_every_worker_is_failed_at_max_kills(store: Backend, hands) -> None:
    job_id = put(store, max_retries=100, max_kills=3)
    for kills in (1, 2, 3):
        hand = hands()
        assert hand.take().kill_count == kills - 1
        store.recover(died_working(hand))
        assert store.job(job_id).kill_count == kills
    job = store.job(job_id)
    assert (job.status, job.reason, job.retry_count) == (Status.FAILED, Reason.WORKER_LOST, 2)


def test_ordered_kills_do_not_count_as_killing_the_worker(store: Backend, hands) -> None:
    job_id = put(store, max_retries=100, max_kills=1)
    for reason in (Reason.TIMEOUT, Reason.MEMORY_LIMIT, Reason.INTERRUPTED):
        hand = hands()
        hand.take()
        store.recover(died_working(hand, reason=reason))
    job = store.job(job_id)
    assert numbers_of(job) == (Status.PENDING, 2, 0, 0, 0)


def test_the_tenth_loss_of_a_whole_pool_fails_the_job(store: Backend, hands) -> None:
    job_id = put(store, max_retries=1)
    for losses in range(1, MAX_POOL_LOSSES + 1):
        hand = hands()
        hand.take()
        store.recover(departure(hand.lane.worker, started=None))
        job = store.job(job_id)
        assert (job.loss_count, job.retry_count, job.kill_count) == (losses, 0, 0)
        assert job.status is (Status.PENDING if losses < MAX_POOL_LOSSES else Status.FAILED)
    assert job.reason is Reason.WORKER_LOST


def test_jobs_that_shared_a_death_are_not_blamed_and_run_alone_next(store: Backend, hands) -> None:
    lanes = [hands(slot=0, lane=lane) for lane in range(3)]
    ids = [put(store) for _ in lanes]
    for lane in lanes:
        lane.take()
    store.recover(died_working(*lanes))
    assert [numbers_of(store.job(job_id)) for job_id in ids] == [(Status.PENDING, 0, 0, 0, 0)] * 3
    others = [hands(slot=1, lane=lane) for lane in range(3)]
    assert [other.take().runs_alone for other in others] == [True] * 3


def test_running_alone_is_over_when_the_job_has_run(store: Backend, hands) -> None:
    lanes = [hands(slot=0, lane=lane) for lane in range(2)]
    put(store, queue="a")
    put(store, queue="b")
    for lane in lanes:
        lane.take()
    store.recover(died_working(*lanes))
    hand = hands()
    assert hand.take().runs_alone
    hand.retry()
    hand.take()
    assert store.recover(died_working(hand)), "it ran alone and died: now the blame is clear"
    assert store.job(hand.held.job_id).kill_count == 1


def test_the_one_started_job_takes_the_blame_and_its_unstarted_neighbours_do_not(store: Backend, hands) -> None:
    guilty, waiting = hands(slot=0, lane=0), hands(slot=0, lane=1)
    blamed, free = put(store), put(store)
    guilty.take()
    waiting.take()
    store.recover(died_working(guilty))
    assert numbers_of(store.job(blamed)) == (Status.PENDING, 1, 1, 0, 0)
    assert numbers_of(store.job(free)) == (Status.PENDING, 0, 0, 0, 0)
    assert [hands().take().runs_alone for _ in range(2)] == [False, False]


def test_a_recovered_job_keeps_its_place_before_younger_ones(store: Backend, hands) -> None:
    hand = hands()
    ids = [put(store) for _ in range(3)]
    hand.take()
    store.recover(died_working(hand))
    assert drain(hands()) == ids


def test_a_recovered_job_goes_back_to_its_own_queue_with_its_priority(store: Backend, hands) -> None:
    hand = hands()
    job_id = put(store, queue="mail", priority=77)
    hand.take()
    store.recover(died_working(hand))
    job = store.job(job_id)
    assert (job.queue, job.priority, job.status) == ("mail", 77, Status.PENDING)


def test_the_attempt_shows_how_the_worker_ended(store: Backend, hands) -> None:
    hand = hands()
    job_id = put(store)
    hand.take()
    cause = Cause(reason=Reason.WORKER_LOST, signal=11, text="worker died: SIGSEGV", stack="Thread 0x1: f.py line 3")
    store.recover(replace(died_working(hand), cause=cause, output={0: "the last lines it printed"}))
    attempt = store.job(job_id).attempts[-1]
    assert (attempt.outcome, attempt.worker) == (Outcome.LOST, str(hand.lane))
    assert attempt.cause is not None
    assert (attempt.cause.reason, attempt.cause.signal) == (Reason.WORKER_LOST, 11)
    assert attempt.cause.stack == "Thread 0x1: f.py line 3"
    assert attempt.output == "the last lines it printed"


@pytest.mark.parametrize("max_retries", [0, 3])
def test_how_the_worker_ended_is_shown_as_the_jobs_error(store: Backend, hands, max_retries: int) -> None:
    hand = hands()
    job_id = put(store, max_retries=max_retries)
    hand.take()
    cause = Cause(reason=Reason.WORKER_LOST, signal=11, text="worker died: SIGSEGV")
    store.recover(replace(died_working(hand), cause=cause))
    assert store.job(job_id).error == "worker died: SIGSEGV"


def test_an_interruption_by_our_own_shutdown_is_recorded(store: Backend, hands) -> None:
    hand = hands()
    job_id = put(store)
    hand.take()
    store.recover(died_working(hand, reason=Reason.INTERRUPTED))
    job = store.job(job_id)
    assert numbers_of(job) == (Status.PENDING, 0, 0, 0, 0)
    assert job.attempts[-1].cause is not None and job.attempts[-1].cause.reason is Reason.INTERRUPTED


def test_recover_names_every_job_it_took_back(store: Backend, hands) -> None:
    lanes = [hands(slot=0, lane=lane) for lane in range(5)]
    store.enqueue(new_jobs(5))
    held = {lane.take().job_id for lane in lanes}
    assert {each.job_id for each in store.recover(departure(lanes[0].lane.worker))} == held


def test_recover_said_twice_acts_once(store: Backend, hands) -> None:
    hand = hands()
    put(store)
    hand.take()
    note = died_working(hand)
    assert len(store.recover(note)) == 1
    with unchanged(store):
        assert store.recover(note) == []


def test_recover_said_again_does_not_touch_the_jobs_next_run(store: Backend, hands) -> None:
    hand = hands()
    put(store)
    hand.take()
    note = died_working(hand)
    store.recover(note)
    other = hands()
    other.take()
    with unchanged(store):
        assert store.recover(note) == []
    assert other.complete()


def test_a_rehearsal_leaves_nothing_and_takes_nothing(store: Backend, hands) -> None:
    hand = hands()
    store.enqueue(new_jobs(2))
    hand.take()
    with unchanged(store):
        for _ in range(2):
            store.rehearse(hand.lane.worker.pool)
    assert [queue.name for queue in store.queues()] == ["default"]
    assert hand.complete()
    assert hand.claim() is not None, "nobody was barred"


def test_recovering_an_idle_worker_takes_nothing(store: Backend, hands) -> None:
    hand = hands()
    put(store)
    hand.take()
    hand.complete()
    assert store.recover(departure(hand.lane.worker)) == []
    assert store.recover(departure(hands().lane.worker)) == []


@pytest.mark.parametrize(("slot", "generation"), [(0, 2), (0, 4), (1, 3), (3, 0), (30, 3)])
def test_other_workers_keep_what_they_hold(store: Backend, hands, slot: int, generation: int) -> None:
    bystander, gone = hands(slot=slot, generation=generation), hands(slot=0, generation=3)
    store.enqueue(new_jobs(2))
    bystander.take()
    gone.take()
    assert len(store.recover(died_working(gone))) == 1
    assert bystander.complete()


def test_the_same_worker_of_another_life_keeps_what_it_holds(store: Backend, hands) -> None:
    bystander = Hand(store)
    store.enqueue(new_jobs(2))
    bystander.take()
    gone = hands(slot=0)
    gone.take()
    store.recover(died_working(gone))
    assert bystander.complete()


def test_only_the_named_lanes_are_taken_back(store: Backend, hands) -> None:
    lanes = [hands(slot=0, lane=lane) for lane in range(3)]
    store.enqueue(new_jobs(3))
    for lane in lanes:
        lane.take()
    taken = store.recover(departure(lanes[0].lane.worker, lanes=(1,), bar=False))
    assert [each.job_id for each in taken] == [lanes[1].held.job_id]
    assert lanes[0].complete() and lanes[2].complete()


def test_a_worker_death_is_counted(store: Backend, hands) -> None:
    hand = hands()
    put(store)
    hand.take()
    before = store.statistics().worker_deaths
    store.recover(died_working(hand))
    store.recover(died_working(hand))
    assert store.statistics().worker_deaths == before + 1


@pytest.mark.parametrize("budget", ["at most once", "fresh"])
def test_a_claim_still_on_the_wire_has_not_started_though_the_job_before_it_had_its_number(
    store: Backend, hands, budget: str
) -> None:
    """Settle and claim are one step: killed before its reply, the worker had started the first job and not the second."""
    hand = hands()
    first, second = put(store, priority=20), put(store, **BUDGETS[budget])
    hand.take()
    as_started = died_working(hand, started_jobs={hand.lane.lane: first})

    hand.settle(want=ANYTHING)
    taken = store.recover(as_started)

    assert [one.job_id for one in taken] == [second]
    assert numbers_of(store.job(second)) == (Status.PENDING, 0, 0, 0, 0)
    assert store.job(first).status is Status.COMPLETED


def test_a_claim_that_started_is_known_by_its_job(store: Backend, hands) -> None:
    hand = hands()
    job = put(store, max_retries=3)
    hand.take()
    store.recover(died_working(hand, started_jobs={hand.lane.lane: job}))
    assert numbers_of(store.job(job)) == (Status.PENDING, 1, 1, 0, 0)


def test_a_lane_that_has_gone_on_keeps_what_it_took(store: Backend) -> None:
    """Word of a claim that is to be taken back may come late: the claim is named, and no other is touched."""
    hand = Hand(store)
    first, second = put(store), put(store)
    old = hand.take()
    hand.settle(want=ANYTHING)
    meant = {hand.lane.lane: (old.job_id, old.claim)}
    taken = store.recover(departure(hand.lane.worker, bar=False, lanes=(hand.lane.lane,), claims=meant))
    assert taken == []
    assert [store.job(job_id).status for job_id in (first, second)] == [Status.COMPLETED, Status.RUNNING]
    assert hand.complete() is True


def test_a_named_claim_is_taken_back(store: Backend) -> None:
    hand = Hand(store)
    put(store)
    held = hand.take()
    meant = {hand.lane.lane: (held.job_id, held.claim)}
    taken = store.recover(departure(hand.lane.worker, bar=False, lanes=(hand.lane.lane,), claims=meant))
    assert [each.job_id for each in taken] == [held.job_id]
    assert store.job(held.job_id).status is Status.PENDING
