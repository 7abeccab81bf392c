"""Processes and threads on one store at the same moment: each job has one holder and one end."""

import os
import signal
import threading
from collections import Counter

from pool.backends.contract import Backend
from pool.errors import IllegalMove, JobpoolError
from pool.identity import LaneId, WorkerId
from pool.jobs.job import Outcome
from pool.jobs.lifecycle import Status
from tests.helpers.builders import ANYTHING, Hand, departure, died_working, drain, new_job, new_jobs, put, some_pool
from tests.helpers.stores import Place, in_child, together
from tests.helpers.until import until


def test_two_processes_share_two_thousand_jobs_without_a_double(place: Place) -> None:
    jobs = new_jobs(2_000)
    place.open().enqueue(jobs)
    shares = together(2, lambda _: drain(Hand(place.open())))
    handed_out = [job_id for share in shares for job_id in share]
    assert len(handed_out) == 2_000
    assert set(handed_out) == {job.id for job in jobs}
    assert place.open().statistics().completed == 2_000


def test_producers_and_workers_at_once_lose_and_double_nothing(place: Place) -> None:
    house = some_pool()

    def produce(number: int) -> list[str]:
        store = place.open()
        return [put(store, priority=n % 5, queue=f"q{n % 3}") for n in range(100)]

    def serve(number: int) -> list[str]:
        hand, done = Hand(place.open(), LaneId(WorkerId(house, number, 1))), []
        while len(done) < 100:
            done += drain(hand)
            hand.store.wait(ANYTHING, 0.05)
            if hand.store.statistics().completed >= 200:
                break
        return done

    answers = together(4, lambda number: produce(number) if number < 2 else serve(number))
    made, done = answers[0] + answers[1], answers[2] + answers[3]
    rest = drain(Hand(place.open()))
    assert Counter(done + rest) == Counter(made)


def test_a_cancel_racing_a_claim_has_one_winner(place: Place) -> None:
    """500 jobs: each is either cancelled and never handed out, or handed out and flagged."""
    jobs = new_jobs(500)
    place.open().enqueue(jobs)

    def cancel(store: Backend) -> list[str]:
        return [job.id for job in jobs if store.cancel(job.id).status is Status.CANCELLED]

    def claim(store: Backend) -> list[str]:
        pool, held = some_pool(), []
        for slot in range(500):
            claim = Hand(store, LaneId(WorkerId(pool, slot, 1))).claim()
            if claim is None:
                break
            held.append(claim.job_id)
        return held

    cancelled, held = together(2, lambda number: (cancel if number == 0 else claim)(place.open()))
    assert not set(cancelled) & set(held)
    store = place.open()
    for job in jobs:
        seen = store.job(job.id)
        if job.id in held:
            assert (seen.status, seen.cancel_requested) == (Status.RUNNING, True)
        else:
            assert seen.status is Status.CANCELLED


def test_a_completion_racing_a_recovery_has_one_outcome(place: Place) -> None:
    """100 jobs in the hands of one dying worker's lanes: settled by it, or taken back, never both."""
    store, worker = place.open(), WorkerId(some_pool(), 0, 1)
    hands = [Hand(store, LaneId(worker, lane)) for lane in range(100)]
    store.enqueue(new_jobs(100))
    for hand in hands:
        hand.take()

    def settle() -> set[str]:
        mine, done = place.open(), set()
        for hand in hands:
            hand.store = mine
            job_id = hand.held.job_id if hand.held else ""
            if hand.complete():
                done.add(job_id)
        return done

    def recover() -> set[str]:
        mine, taken = place.open(), set()
        for lane in range(100):
            taken |= {each.job_id for each in mine.recover(departure(worker, lanes=(lane,)))}
        return taken

    done, taken = together(2, lambda number: settle() if number == 0 else recover())
    assert not done & taken
    assert len(done | taken) == 100
    assert store.statistics().completed == len(done)
    assert [queue.pending for queue in store.queues()] == [len(taken)]


def test_one_request_sent_by_many_processes_at_once_claims_one_job(place: Place) -> None:
    """Duplicates of a request may be carried out at the same time by the server."""
    place.open().enqueue(new_jobs(50))
    lane = LaneId(WorkerId(some_pool(), 0, 1))

    def ask(_: int) -> str | None:
        answer = place.open().exchange(lane, 1, want=ANYTHING)
        return answer.claim and answer.claim.job_id

    assert len(set(together(8, ask))) == 1
    store = place.open()
    assert [queue.running for queue in store.queues()] == [1]


def test_one_order_given_by_many_at_once_is_carried_out_once(place: Place) -> None:
    store = place.open()
    hand = Hand(store)
    job_id = put(store)
    hand.take()
    hand.fail()

    def order(_: int) -> bool:
        mine = place.open()
        try:
            mine.revive(job_id)
        except IllegalMove:
            return False
        return True

    assert sum(together(6, order)) == 1
    assert drain(Hand(store)) == [job_id]


def test_a_unique_key_wanted_by_many_at_once_makes_one_job(place: Place) -> None:
    def enqueue(_: int) -> list[str]:
        store = place.open()
        return [put(store, unique_key=f"u{n}") for n in range(20)]

    answers = together(6, enqueue)
    assert all(answer == answers[0] for answer in answers)
    assert place.open().statistics().enqueued == 20


def test_a_process_killed_between_its_calls_leaves_the_store_whole(place: Place) -> None:
    """SIGKILL at any moment of a busy worker: each job is pending, held or completed, and none is lost."""
    store, worker = place.open(), WorkerId(some_pool(), 0, 1)
    store.enqueue(new_jobs(3_000))
    child = in_child(lambda: drain(Hand(place.open(), LaneId(worker))))
    until(lambda: store.statistics().completed >= 50, "some work done")
    os.kill(child.pid, signal.SIGKILL)
    os.waitpid(child.pid, 0)
    os.close(child.answer_fd)
    taken = store.recover(departure(worker, started=None))
    assert len(taken) <= 1
    [queue] = store.queues()
    assert (queue.running, queue.pending + queue.completed) == (0, 3_000)
    assert queue.completed == store.statistics().completed
    assert len(drain(Hand(store))) == queue.pending


# ---------------------------------------------------------------- forks and threads


def test_a_child_may_use_the_object_its_parent_opened(store: Backend) -> None:
    """A web server opens its client and then forks: the child notices and connects anew."""
    hand = Hand(store)
    mine = put(store)
    children = [in_child(lambda: (put(store), store.job(mine).status, store.server_now())) for _ in range(3)]
    assert hand.take().job_id == mine
    answers = [child.result() for child in children]
    assert {answer[1] for answer in answers} <= {Status.PENDING, Status.RUNNING}
    assert hand.complete()
    assert sorted(drain(hand)) == sorted(answer[0] for answer in answers)


def test_a_child_that_closes_its_copy_does_not_disturb_the_parent(store: Backend) -> None:
    put(store)
    hand = Hand(store)
    hand.take()
    in_child(store.close).result()
    assert hand.complete()
    put(store)
    assert hand.take()


def test_parent_and_child_work_with_one_object_at_the_same_time(store: Backend) -> None:
    """Interleaved replies would show here as wrong jobs or wrong types."""
    house = some_pool()
    store.enqueue(new_jobs(400))
    child = in_child(lambda: drain(Hand(store, LaneId(WorkerId(house, 1, 1)))))
    mine = drain(Hand(store, LaneId(WorkerId(house, 0, 1))))
    theirs = child.result()
    assert len(set(mine) | set(theirs)) == len(mine) + len(theirs) == 400


def test_a_childs_child_connects_anew_too(store: Backend) -> None:
    put(store)
    job_id = in_child(lambda: in_child(lambda: put(store)).result()).result()
    assert store.job(job_id).status is Status.PENDING


def test_threads_with_an_object_each_share_the_work(place: Place) -> None:
    """Locks that count per process must not let two threads of one process in together."""
    place.open().enqueue(new_jobs(400))
    house, shares = some_pool(), [[] for _ in range(4)]

    def serve(number: int) -> None:
        store = place.open()
        shares[number] = drain(Hand(store, LaneId(WorkerId(house, number, 1))))
        store.close()

    threads = [threading.Thread(target=serve, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    handed_out = [job_id for share in shares for job_id in share]
    assert len(handed_out) == len(set(handed_out)) == 400


def test_an_object_handed_to_another_thread_works_or_refuses_in_words(store: Backend) -> None:
    put(store)
    seen: list[object] = []

    def use() -> None:
        try:
            seen.append(store.enqueue([new_job()])[0].status)
        except JobpoolError as refusal:
            seen.append(refusal)
        except BaseException as foreign:
            seen.append(AssertionError(f"a foreign exception left the store: {foreign!r}"))

    thread = threading.Thread(target=use)
    thread.start()
    thread.join()
    assert seen[0] is Status.PENDING or isinstance(seen[0], JobpoolError), seen
    assert put(store)


def test_a_lost_worker_and_its_successor_at_once_run_the_job_in_turn(place: Place) -> None:
    """The late settlement of the first and the claim of the second cross; the count of ends is one."""
    store = place.open()
    old = Hand(store, LaneId(WorkerId(some_pool(), 0, 1)))
    for _ in range(30):
        job_id = put(store, max_retries=100, max_kills=100)
        claim = old.take()
        store.recover(died_working(old, bar=False))
        new = Hand(store)
        answers = [new.take(), old.settle(Outcome.COMPLETED)]
        assert answers[0].claim > claim.claim
        assert answers[1].settled is False
        assert new.complete()
        assert store.job(job_id).status is Status.COMPLETED
    assert store.statistics().completed == 30
