"""Several workers call for all their lanes at once, and die in the middle of it: every job runs, none is in two hands."""

import os
import signal
from collections import Counter

from pool.backends.contract import Answer, Backend
from pool.identity import LaneId, PoolId, WorkerId
from pool.jobs.job import Claim
from pool.jobs.lifecycle import Status
from tests.helpers.builders import ANYTHING, departure, new_jobs, settlement, some_pool
from tests.helpers.stores import Place, in_child, together
from tests.helpers.until import until

LANES = 6
JOBS = 600


def work_off(store: Backend, who: WorkerId, most: int = 10**9) -> list[str]:
    """Take and complete with all lanes until nothing is left (or so many calls); the jobs in the order they came."""
    lanes, seen = [LaneId(who, number) for number in range(LANES)], []
    held: list[Claim | None] = [None] * LANES
    for request in range(1, most):
        words = [claim and settlement(claim, started_at=1.0) for claim in held]
        answers = store.exchange_many(lanes, request, settlements=words, want=ANYTHING, ahead=LANES - 1, leave=2)
        assert [answer.settled for answer in answers] == [claim and True for claim in held]
        held = [answer.claim for answer in answers]
        seen += [claim.job_id for claim in held if claim is not None]
        if answers == [Answer(answer.settled) for answer in answers]:
            break
    return seen


def test_workers_with_many_lanes_share_the_jobs_without_a_double(place: Place) -> None:
    jobs = new_jobs(JOBS)
    store, house = place.open(), some_pool()
    store.enqueue(jobs)
    shares = together(4, lambda number: work_off(place.open(), WorkerId(house, number, 1)))
    assert Counter(job_id for share in shares for job_id in share) == Counter(job.id for job in jobs)
    (queue,) = store.queues()
    assert (queue.pending, queue.running, queue.completed) == (0, 0, JOBS)


def test_a_worker_killed_between_or_in_its_calls_loses_nothing(place: Place) -> None:
    """What it held is returned; what it had completed stays so; its lanes' numbers mean nothing to the next one."""
    jobs = new_jobs(5 * JOBS)
    store, house = place.open(), some_pool()
    store.enqueue(jobs)
    for generation in range(1, 9):
        before = store.statistics().completed
        if before == len(jobs):
            break
        child = in_child(lambda it=generation: work_off(place.open(), WorkerId(house, 0, it)))
        until(lambda least=before: store.statistics().completed > least, "a call has settled something")
        os.kill(child.pid, signal.SIGKILL)
        os.waitpid(child.pid, 0)
        os.close(child.answer_fd)
        store.recover(departure(WorkerId(house, 0, generation)))
        (queue,) = store.queues()
        assert queue.running == 0
        assert queue.pending + queue.completed == len(jobs)
    rest = work_off(store, WorkerId(house, 0, 9))
    assert len(rest) == len(set(rest))
    assert {store.job(job.id).status for job in jobs} == {Status.COMPLETED}


def test_lanes_settle_while_another_process_takes_their_jobs_back(place: Place) -> None:
    """Each job of the sheaf is completed or returned, whoever comes first, and never both."""
    store, house = place.open(), some_pool()
    for generation in range(1, 21):
        store.enqueue(new_jobs(LANES))
        who = WorkerId(house, 0, generation)
        lanes = [LaneId(who, number) for number in range(LANES)]
        first = store.exchange_many(lanes, 1, settlements=[None] * LANES, want=ANYTHING, ahead=LANES - 1)
        held = [answer.claim for answer in first]
        taken, answers = _settle_and_take_back(place, house, generation, held)
        refused = {number for number, answer in enumerate(answers) if answer.settled is False}
        assert refused == taken
        store.recover(departure(who))
        work_off(store, WorkerId(house, 1, generation))
    assert store.statistics().completed == 20 * LANES


def _settle_and_take_back(
    place: Place, house: PoolId, generation: int, held: list[Claim | None]
) -> tuple[set[int], list[Answer]]:
    who = WorkerId(house, 0, generation)
    lanes = [LaneId(who, number) for number in range(LANES)]

    def act(number: int) -> list[Answer] | set[int]:
        mine = place.open()
        if number == 0:
            words = [claim and settlement(claim, started_at=1.0) for claim in held]
            return mine.exchange_many(lanes, 2, settlements=words)
        back = {job.job_id for job in mine.recover(departure(who, bar=False, lanes=(1, 3, 4)))}
        return {number for number, claim in enumerate(held) if claim is not None and claim.job_id in back}

    answers, taken = together(2, act)
    return taken, answers
