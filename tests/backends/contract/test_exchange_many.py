"""Several lanes of one worker in one call: each settles its own, and some are given a plain job ahead of its start."""

from dataclasses import replace
from typing import Any

import pytest

from pool.backends.contract import Answer, Backend, Finished, Want
from pool.errors import LaneBarred, RequestRefused
from pool.identity import LaneId, WorkerId
from pool.jobs.job import Claim, Outcome, Settlement
from pool.jobs.lifecycle import Status
from tests.helpers.builders import ANYTHING, Hand, beat, departure, failure, settlement, without_clock, worker
from tests.helpers.builders import new_job as a_job

LANES = 5


class Sheaf:
    """A worker with several lanes, as it calls."""

    def __init__(self, store: Backend, who: WorkerId | None = None, lanes: int = LANES) -> None:
        self.store, self.worker = store, who or worker()
        self.lanes = [LaneId(self.worker, number) for number in range(lanes)]
        self.request = 0
        self.held: list[Claim | None] = [None] * lanes

    def call(self, want: Want | None = ANYTHING, *, ahead: int = LANES - 1, leave: int = 0) -> list[Answer]:
        """Complete what is held and take the next."""
        words = [held and settlement(held, started_at=self.store.server_now()) for held in self.held]
        return self.say(words, want, ahead=ahead, leave=leave)

    def say(self, words: list[Settlement | None], want: Want | None = ANYTHING, **how: int) -> list[Answer]:
        self.request += 1
        answers = self.repeat(words, want, **how)
        for number, answer in enumerate(answers):
            if words[number] is not None or answer.claim is not None:
                self.held[number] = answer.claim
        return answers

    def repeat(self, words: list[Settlement | None], want: Want | None = ANYTHING, **how: int) -> list[Answer]:
        return self.store.exchange_many(self.lanes, self.request, settlements=words, want=want, **how)

    @property
    def jobs(self) -> list[str]:
        return [held.job_id for held in self.held if held is not None]

    @property
    def nothing(self) -> list[Settlement | None]:
        return [None] * len(self.lanes)


def enqueue(store: Backend, count: int, **fields: Any) -> list[str]:
    jobs = [a_job(**fields) for _ in range(count)]
    return [receipt.job_id for receipt in store.enqueue(jobs)]


def states(store: Backend, ids: list[str]) -> list[Status]:
    return [store.job(job_id).status for job_id in ids]


# ---------------------------------------------------------------- what is given


def test_jobs_are_given_in_the_order_of_the_line(store: Backend) -> None:
    ids = enqueue(store, 8)
    sheaf = Sheaf(store)
    sheaf.call()
    assert sheaf.jobs == ids[:5]
    answers = sheaf.call()
    assert [answer.settled for answer in answers] == [True] * 5
    assert sheaf.jobs == ids[5:]
    assert states(store, ids) == [Status.COMPLETED] * 5 + [Status.RUNNING] * 3


def test_no_more_are_given_than_asked_for(store: Backend) -> None:
    ids = enqueue(store, 8)
    sheaf = Sheaf(store)
    sheaf.call(ahead=2)
    assert sheaf.jobs == ids[:3]
    sheaf.call(ahead=0)
    assert sheaf.jobs == ids[3:4]


def test_so_many_are_left_for_others(store: Backend) -> None:
    ids = enqueue(store, 6)
    sheaf = Sheaf(store)
    sheaf.call(leave=4)
    assert sheaf.jobs == ids[:2]
    assert [answer.claim for answer in Sheaf(store).call(leave=100)[1:]] == [None] * 4


def test_higher_priorities_come_first_over_queues(store: Backend) -> None:
    low = enqueue(store, 3, priority=10)
    high = enqueue(store, 2, priority=30, queue="urgent")
    sheaf = Sheaf(store)
    taken = []
    for _ in range(5):
        sheaf.call()
        taken += sheaf.jobs
    assert taken == high + low


def test_a_strict_list_is_obeyed(store: Backend) -> None:
    second = enqueue(store, 3, queue="second", priority=30)
    first = enqueue(store, 2, queue="first", priority=0)
    enqueue(store, 2, queue="third")
    sheaf = Sheaf(store)
    taken = []
    for _ in range(6):
        sheaf.call(Want(queues=("first", "second")))
        taken += sheaf.jobs
    assert taken == first + second


@pytest.mark.parametrize(
    "odd",
    [{"max_retries": 0}, {"limit_key": "k", "limit_running": 5}],
    ids=["at most once", "limited"],
)
def test_only_plain_jobs_are_given_ahead(store: Backend, odd: dict[str, Any]) -> None:
    first = enqueue(store, 1)
    strange = enqueue(store, 1, **odd)
    later = enqueue(store, 3)
    sheaf = Sheaf(store)
    sheaf.call()
    assert sheaf.jobs == first
    sheaf.call()
    assert sheaf.jobs[0] == strange[0]
    while sheaf.jobs:
        sheaf.call()
    assert states(store, first + strange + later) == [Status.COMPLETED] * 5


def test_a_retry_goes_ahead_like_any_other_job(store: Backend) -> None:
    ids = enqueue(store, 3)
    hand = Hand(store)
    hand.take()
    hand.retry()
    sheaf = Sheaf(store)
    taken: list[str] = []
    while len(taken) < 3:
        sheaf.call()
        taken += sheaf.jobs
    assert taken == ids
    sheaf.call()
    assert states(store, ids) == [Status.COMPLETED] * 3
    assert store.job(ids[0]).claim == 2


def test_a_paused_queue_gives_nothing(store: Backend) -> None:
    enqueue(store, 3)
    store.set_queue("default", paused=True)
    sheaf = Sheaf(store)
    sheaf.call()
    assert sheaf.jobs == []


def test_expired_and_due_jobs_are_dealt_with_on_the_way(store: Backend) -> None:
    gone = enqueue(store, 2, expires_in=-1.0)
    plain = enqueue(store, 2)
    sheaf = Sheaf(store)
    taken = []
    for _ in range(3):
        sheaf.call()
        taken += sheaf.jobs
    assert taken == plain
    assert states(store, gone) == [Status.CANCELLED] * 2


# ---------------------------------------------------------------- what is settled


def test_each_lane_settles_its_own(store: Backend) -> None:
    ids = enqueue(store, 5)
    sheaf = Sheaf(store)
    sheaf.call()
    now = store.server_now()
    claims = [held for held in sheaf.held if held is not None]
    words: list[Settlement | None] = [
        settlement(claims[0], started_at=now, result='"done"'),
        settlement(claims[1], Outcome.RETRIED, delay=60.0, cause=failure(), started_at=now),
        settlement(claims[2], Outcome.FAILED, cause=failure(), reason=failure().reason, started_at=now),
        settlement(claims[3], Outcome.RETURNED),
        None,
    ]
    answers = sheaf.say(words, None)
    assert [answer.settled for answer in answers] == [True, True, True, True, None]
    assert states(store, ids) == [
        Status.COMPLETED,
        Status.SCHEDULED,
        Status.FAILED,
        Status.PENDING,
        Status.RUNNING,
    ]
    assert store.job(ids[0]).result == '"done"'


def test_children_of_any_lane_are_enqueued_once(store: Backend) -> None:
    enqueue(store, 3)
    sheaf = Sheaf(store)
    sheaf.call()
    child = a_job()
    words = [held and settlement(held, started_at=store.server_now()) for held in sheaf.held]
    words[1] = words[1] and replace(words[1], children=(child,))
    sheaf.say(words, None)
    sheaf.repeat(words, None)
    assert store.job(child.id).status is Status.PENDING
    assert store.queues()[0].pending == 1


def test_a_late_word_changes_nothing_and_holds_up_no_other(store: Backend) -> None:
    ids = enqueue(store, 3)
    sheaf = Sheaf(store)
    sheaf.call()
    store.recover(departure(sheaf.worker, bar=False, lanes=(1,)))
    answers = sheaf.call(None)
    assert [answer.settled for answer in answers[:3]] == [True, False, True]
    assert states(store, ids) == [Status.COMPLETED, Status.PENDING, Status.COMPLETED]


def test_lanes_that_hold_something_are_not_given_another(store: Backend) -> None:
    ids = enqueue(store, 9)
    sheaf = Sheaf(store)
    sheaf.call()
    words = sheaf.nothing
    words[0] = sheaf.held[0] and settlement(sheaf.held[0], started_at=store.server_now())
    words[2] = sheaf.held[2] and settlement(sheaf.held[2], started_at=store.server_now())
    answers = sheaf.say(words, ANYTHING, ahead=4)
    assert answers[0].claim is not None and answers[0].claim.job_id == ids[5]
    assert answers[2].claim is None or answers[2].claim.job_id == ids[6]
    assert len(set(sheaf.jobs)) == len(sheaf.jobs)
    for number in (1, 3, 4):
        kept = sheaf.held[number]
        assert kept is not None and store.job(kept.job_id).status is Status.RUNNING


def test_what_was_taken_back_unstarted_goes_ahead_again_under_its_next_number(store: Backend) -> None:
    ids = enqueue(store, 5)
    sheaf = Sheaf(store)
    sheaf.call()
    store.recover(departure(sheaf.worker, bar=False, started={}, lanes=(1, 3)))
    other = Sheaf(store, worker(slot=7))
    first = other.call()
    assert [(held.job_id, held.claim) for held in other.held if held is not None] == [(ids[1], 2), (ids[3], 2)]
    again = other.repeat(other.nothing)
    assert [answer.claim and (answer.claim.job_id, answer.claim.claim) for answer in again] == [
        answer.claim and (answer.claim.job_id, answer.claim.claim) for answer in first
    ]
    assert [answer.settled for answer in sheaf.call(None)] == [True, False, True, False, True]
    other.call()
    assert states(store, ids) == [Status.COMPLETED] * 5
    assert [store.job(job_id).retry_count for job_id in ids] == [0] * 5
    assert store.queues()[0].running == 0


def test_the_word_that_a_job_taken_back_never_started_is_late_and_its_lane_is_free(store: Backend) -> None:
    ids = enqueue(store, 8)
    sheaf = Sheaf(store)
    sheaf.call(ahead=2)
    store.recover(departure(sheaf.worker, bar=False, started={}, lanes=(2,)))
    words: list[Settlement | None] = [
        held and settlement(held, Outcome.RETURNED if number else Outcome.COMPLETED, started_at=None if number else 1.0)
        for number, held in enumerate(sheaf.held)
    ]
    answers = sheaf.say(words)
    assert [answer.settled for answer in answers] == [True, True, False, None, None]
    while any(sheaf.jobs):
        sheaf.call()
    assert states(store, ids) == [Status.COMPLETED] * 8
    assert {store.job(job_id).claim for job_id in ids[1:3]} == {2}


# ---------------------------------------------------------------- numbers, bars, departures


def test_the_same_number_gives_the_same_answers(store: Backend) -> None:
    ids = enqueue(store, 20)
    sheaf = Sheaf(store)
    sheaf.call()
    words = [held and settlement(held, started_at=store.server_now()) for held in sheaf.held]
    first = sheaf.say(words, ahead=4)
    again = sheaf.repeat(words, ahead=4)
    assert [answer.settled for answer in again] == [answer.settled for answer in first]
    assert list(map(without_clock, (answer.claim for answer in again))) == list(
        map(without_clock, (answer.claim for answer in first))
    )
    assert store.queues()[0].running == 5
    assert states(store, ids[:5]) == [Status.COMPLETED] * 5


def test_a_repeated_call_hands_out_nothing_to_lanes_that_got_nothing(store: Backend) -> None:
    first = enqueue(store, 1)
    sheaf = Sheaf(store)
    sheaf.call()
    enqueue(store, 5)
    again = sheaf.repeat(sheaf.nothing, ahead=4)
    assert [answer.claim and answer.claim.job_id for answer in again] == [first[0], None, None, None, None]
    assert store.queues()[0].running == 1


def test_a_lower_number_is_refused(store: Backend) -> None:
    enqueue(store, 5)
    sheaf = Sheaf(store)
    sheaf.call()
    sheaf.call()
    with pytest.raises(RequestRefused):
        store.exchange_many(sheaf.lanes, 1, settlements=sheaf.nothing, want=ANYTHING, ahead=4)


def test_single_and_many_calls_share_their_numbers(store: Backend) -> None:
    ids = enqueue(store, 10)
    hand = Hand(store, LaneId(worker()))
    hand.take()
    sheaf = Sheaf(store, hand.lane.worker)
    sheaf.request, sheaf.held[0] = hand.request, hand.held
    sheaf.call()
    assert sheaf.jobs == ids[1:6]
    sheaf.call(None)
    hand.request = sheaf.request
    assert hand.take().job_id == ids[6]


def test_a_barred_worker_settles_and_claims_nothing(store: Backend) -> None:
    ids = enqueue(store, 4)
    sheaf = Sheaf(store)
    sheaf.call(ahead=1)
    store.recover(departure(sheaf.worker))
    with pytest.raises(LaneBarred):
        sheaf.call()
    assert states(store, ids) == [Status.PENDING] * 4


def test_what_never_started_comes_back_free_and_one_death_charges_the_one_that_ran(store: Backend) -> None:
    ids = enqueue(store, 4)
    sheaf = Sheaf(store)
    sheaf.call()
    running = sheaf.held[2]
    assert running is not None
    store.recover(departure(sheaf.worker, started={2: running.claim}, started_jobs={2: running.job_id}))
    jobs = [store.job(job_id) for job_id in ids]
    assert [job.status for job in jobs] == [Status.PENDING] * 4
    assert [job.kill_count for job in jobs] == [0, 0, 1, 0]
    assert [job.retry_count for job in jobs] == [0, 0, 1, 0]


def test_what_has_finished_is_completed_though_its_worker_died(store: Backend) -> None:
    ids = enqueue(store, 4)
    sheaf = Sheaf(store)
    sheaf.call()
    now = store.server_now()
    claims = [held for held in sheaf.held if held is not None]
    done = {
        0: Finished(claims[0].job_id, claims[0].claim, now, '{"n":1}'),
        1: Finished(claims[1].job_id, claims[1].claim, now),
    }
    started = {number: claims[number].claim for number in (0, 1, 2)}
    jobs = {number: claims[number].job_id for number in (0, 1, 2)}
    gone = departure(sheaf.worker, started=started, started_jobs=jobs, finished=done)
    store.recover(gone)
    found = [store.job(job_id) for job_id in ids]
    assert [job.status for job in found] == [Status.COMPLETED] * 2 + [Status.PENDING] * 2
    assert [job.kill_count for job in found] == [0, 0, 1, 0], "one was at work; the finished are not to blame"
    assert (found[0].result, found[1].result) == ('{"n":1}', None)
    assert found[0].started_at == pytest.approx(now, abs=0.001)
    assert store.statistics().completed == 2
    store.recover(gone)
    assert store.statistics().completed == 2


def test_a_finished_lane_is_handed_in_for_a_living_worker_and_its_own_word_is_late(store: Backend) -> None:
    ids = enqueue(store, 3)
    sheaf = Sheaf(store)
    sheaf.call()
    claims = [held for held in sheaf.held if held is not None]
    finished = {0: Finished(claims[0].job_id, claims[0].claim, store.server_now(), "1")}
    store.recover(departure(sheaf.worker, bar=False, lanes=(0, 2), finished=finished))
    assert states(store, ids) == [Status.COMPLETED, Status.RUNNING, Status.PENDING]
    answers = sheaf.call(None)
    assert [answer.settled for answer in answers[:3]] == [False, True, False]
    assert states(store, ids) == [Status.COMPLETED, Status.COMPLETED, Status.PENDING]
    assert store.job(ids[0]).result == "1"


def test_a_finished_claim_of_another_number_or_job_completes_nothing(store: Backend) -> None:
    ids = enqueue(store, 2)
    sheaf = Sheaf(store)
    sheaf.call()
    claims = [held for held in sheaf.held if held is not None]
    wrong = {
        0: Finished(claims[0].job_id, claims[0].claim + 1, store.server_now()),
        1: Finished(claims[0].job_id, claims[1].claim, store.server_now()),
    }
    store.recover(departure(sheaf.worker, finished=wrong))
    assert states(store, ids) == [Status.PENDING] * 2


def test_a_cancel_that_came_too_late_does_not_undo_what_has_finished(store: Backend) -> None:
    (job_id,) = enqueue(store, 1)
    sheaf = Sheaf(store)
    sheaf.call()
    held = sheaf.held[0]
    assert held is not None
    store.cancel(job_id)
    store.recover(departure(sheaf.worker, finished={0: Finished(held.job_id, held.claim, store.server_now())}))
    assert store.job(job_id).status is Status.COMPLETED


def test_the_beat_knows_every_lane(store: Backend) -> None:
    enqueue(store, 3)
    sheaf = Sheaf(store)
    sheaf.call()
    from pool.backends.contract import Held

    held = [Held(sheaf.lanes[n], claim.job_id, claim.claim) for n, claim in enumerate(sheaf.held) if claim is not None]
    answer = store.beat(beat(sheaf.worker.pool, held))
    assert (answer.lost, answer.cancelled) == ((), ())
