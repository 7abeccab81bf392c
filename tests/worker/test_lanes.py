"""`concurrency` above 1: many async jobs in one process, each with its own claim, timeout, cancel and end."""

import json
import os
import signal
import time
from uuid import UUID

import pytest

from pool.board.lanes import NO_ORDER, Phase
from pool.board.record import Exit
from pool.jobs.lifecycle import Reason, Status
from tests.helpers.hired import APP, Hired, Shop
from tests.helpers.until import until


def later(shop: Shop, seconds: float, **fields: object) -> str:
    payload = {"ledger": str(shop.folder / "ledger"), "seconds": seconds}
    return shop.enqueue("later", json.dumps(payload), queue="async", **fields)


def hire(shop: Shop, count: int = 4, **keys: object) -> Hired:
    return shop.hire(shop.config(concurrency=count, queues=["async"], **keys))


def starts(shop: Shop) -> int:
    path = shop.folder / "ledger"
    return path.read_text().count("start") if path.exists() else 0


def test_jobs_run_side_by_side_each_in_a_lane(shop: Shop) -> None:
    jobs = [later(shop, 30.0) for _ in range(5)]
    worker = hire(shop)
    until(lambda: starts(shop) == 4, "four at once")

    held = worker.record.held_lanes()
    assert {lane.job_id for lane in held.values()} == set(jobs[:4])
    assert {lane.phase for lane in held.values()} == {Phase.STARTED}
    assert shop.job(jobs[4]).status is Status.PENDING


def test_all_jobs_are_done_and_results_belong_to_their_jobs(shop: Shop) -> None:
    jobs = [later(shop, 2.0 if n < 4 else 0.01) for n in range(60)]  # each lane gets one of the first
    worker = hire(shop)
    assert {shop.until_over(job).result for job in jobs} == {'"done"'}
    assert {shop.job(job).attempts[0].worker.rpartition("/")[2] for job in jobs} == set("0123")
    until(lambda: worker.process.completed == 60, "the count")
    assert worker.stop() == 0


def test_on_term_all_lanes_finish_and_take_nothing_more(shop: Shop) -> None:
    gate = shop.folder / "gate"
    payload = json.dumps({"ledger": str(shop.folder / "ledger"), "gate": str(gate)})
    jobs = [shop.enqueue("held_async", payload, queue="async") for _ in range(8)]
    worker = hire(shop)
    until(lambda: starts(shop) == 4, "four at once")
    worker.signal(signal.SIGTERM)
    gate.touch()
    assert worker.until_ended() == 0
    assert [shop.job(job).status for job in jobs] == [Status.COMPLETED] * 4 + [Status.PENDING] * 4


def test_an_idle_worker_of_many_lanes_leaves_at_once(shop: Shop) -> None:
    worker = hire(shop)
    worker.until_idle()
    before = time.monotonic()
    assert worker.stop() == 0
    assert time.monotonic() - before < 10
    assert worker.process.exit == Exit.STOPPED


def test_one_lane_times_out_and_its_neighbour_does_not_notice(shop: Shop) -> None:
    slow = later(shop, 60.0, timeout=0.3, max_retries=0)
    fine = later(shop, 0.6)
    hire(shop)
    assert shop.until_over(slow).reason is Reason.TIMEOUT
    assert shop.until_over(fine).status is Status.COMPLETED


def test_one_lane_is_cancelled_and_its_neighbour_does_not_notice(shop: Shop) -> None:
    victim, fine = later(shop, 60.0), later(shop, 2.0)
    worker = hire(shop)
    until(lambda: starts(shop) == 2, "both")
    lane = next(n for n, held in worker.record.held_lanes().items() if held.job_id == victim)
    shop.store.cancel(victim)
    worker.record.lanes[lane].order.write(*NO_ORDER._replace(cancel_job=UUID(victim).bytes, cancel_claim=1))
    worker.signal(signal.SIGURG)
    assert shop.until_over(victim).status is Status.CANCELLED
    assert shop.until_over(fine).status is Status.COMPLETED


def test_an_idle_lane_is_woken_while_its_neighbours_work(shop: Shop) -> None:
    later(shop, 30.0)
    hire(shop)
    until(lambda: starts(shop) == 1, "the long one")
    assert shop.until_over(later(shop, 0.0)).status is Status.COMPLETED


@pytest.mark.parametrize("how", ["exits", "interrupts", "recurses", "nan"])
def test_a_bad_job_harms_no_neighbour(shop: Shop, how: str) -> None:
    fine = later(shop, 1.0)
    bad = shop.enqueue("bad_async", json.dumps({"how": how}), queue="async", max_retries=0)
    worker = hire(shop)
    assert shop.until_over(bad).status is Status.FAILED
    assert shop.until_over(fine).status is Status.COMPLETED
    assert not worker.has_ended()


def test_what_a_job_prints_is_kept_with_it_and_no_other(shop: Shop) -> None:
    words = [f"word-{n}" for n in range(6)]
    jobs = [shop.enqueue("spoken_async", json.dumps({"words": word}), queue="async") for word in words]
    hire(shop)
    assert [shop.until_over(job).attempts[0].output.split() for job in jobs] == [[word, word] for word in words]


def test_a_sync_job_type_in_such_a_group_is_told_at_the_start(shop: Shop) -> None:
    worker = shop.hire(shop.config(concurrency=4))
    assert worker.until_ended() == 78
    remark = worker.record.remark.read().text
    assert "is not async def" in remark and APP in remark


def test_a_dead_workers_lanes_are_all_recovered_and_nobody_is_blamed(shop: Shop) -> None:
    jobs = [later(shop, 60.0) for _ in range(3)]
    worker = hire(shop)
    until(lambda: starts(shop) == 3, "three at once")
    os.kill(worker.pid, signal.SIGKILL)
    worker.until_ended()
    shop.recover(worker)
    assert [(shop.job(job).status, shop.job(job).kill_count) for job in jobs] == [(Status.PENDING, 0)] * 3

    heir = hire(shop)
    until(lambda: starts(shop) == 4, "the first of them to start again")
    assert len(heir.record.started_claims()) == 1, "a job that shared a death runs alone"


def test_max_jobs_counts_over_all_lanes(shop: Shop) -> None:
    for _ in range(30):
        later(shop, 0.01)
    worker = hire(shop, max_jobs=10)
    until(lambda: worker.process.exit == Exit.MAX_JOBS, "the announcement")
    assert worker.stop() == 0
    assert 9 <= worker.process.completed <= 14
