"""A job is ended early: by its timeout, by a cancel, because its claim was lost, by its orphan's deadline."""

import json
import signal
from uuid import UUID

import pytest

from pool.board.lanes import NO_ORDER, LaneOrder
from pool.jobs.ids import new_job_id
from pool.jobs.job import Outcome
from pool.jobs.lifecycle import Reason, Status
from tests.helpers.hired import Hired, Shop
from tests.helpers.until import until


def stuck(shop: Shop, **fields: object) -> str:
    return shop.enqueue("stuck", json.dumps({"ledger": str(shop.folder / "ledger")}), **fields)


def ledger(shop: Shop) -> list[str]:
    path = shop.folder / "ledger"
    return path.read_text().split("\n")[:-1] if path.exists() else []


def order(worker: Hired, job: str, **fields: int) -> None:
    """As the keeper tells a lane."""
    named = {"cancel_job": UUID(job).bytes, "cancel_claim": 0, "lost_job": UUID(job).bytes, "lost_claim": 0}
    worker.record.lanes[0].order.write(*LaneOrder(**{**named, **fields}))
    worker.signal(signal.SIGURG)


def test_a_timeout_is_raised_in_the_job_past_a_broad_except(shop: Shop) -> None:
    job = stuck(shop, timeout=1.5, max_retries=1)
    worker = shop.hire()

    over = shop.until_over(job)

    assert (over.status, over.reason) == (Status.FAILED, Reason.TIMEOUT)
    assert ledger(shop) == ["start", "cleaned up"] * 2
    assert "timeout of 1.5 s" in (over.error or "")
    assert not worker.has_ended()


@pytest.mark.parametrize("how", ["print", "logging", "checkpoint"])
def test_a_timeout_waits_for_the_end_of_our_own_calls_and_leaves_no_lock_behind(shop: Shop, how: str) -> None:
    job = shop.enqueue("busy_inside_our_calls", json.dumps({"how": how}), timeout=0.2, max_retries=2)
    worker = shop.hire()
    assert shop.until_over(job).reason is Reason.TIMEOUT
    after = shop.enqueue("spoken", '{"words": "after"}')
    assert "after" in shop.until_over(after).attempts[0].output
    assert not worker.has_ended()


def test_a_cancelled_job_is_ended_and_is_cancelled(shop: Shop) -> None:
    job = stuck(shop)
    worker = shop.hire()
    until(lambda: ledger(shop), "the start")

    shop.store.cancel(job)
    order(worker, job, cancel_claim=1)

    assert shop.until_over(job).status is Status.CANCELLED
    assert ledger(shop) == ["start", "cleaned up"]


def test_an_order_for_an_older_claim_does_nothing(shop: Shop) -> None:
    job = stuck(shop, timeout=1.5, max_retries=0)
    worker = shop.hire()
    until(lambda: ledger(shop), "the start")
    order(worker, job, cancel_claim=7, lost_claim=9)
    assert shop.until_over(job).reason is Reason.TIMEOUT


def test_an_order_for_another_job_with_the_same_claim_number_does_nothing(shop: Shop) -> None:
    """Nearly every job has claim 1."""
    job = stuck(shop, timeout=1.5, max_retries=0)
    worker = shop.hire()
    until(lambda: ledger(shop), "the start")
    order(worker, new_job_id(), cancel_claim=1, lost_claim=1)
    assert shop.until_over(job).reason is Reason.TIMEOUT


def test_a_job_whose_claim_is_lost_is_dropped(shop: Shop) -> None:
    job = stuck(shop)
    worker = shop.hire()
    until(lambda: ledger(shop), "the start")
    shop.recover(worker, Reason.INTERRUPTED)
    assert shop.job(job).status is Status.PENDING

    order(worker, job, lost_claim=1)

    until(lambda: "cleaned up" in ledger(shop), "the end of the job")
    assert worker.until_ended() == 0  # it was barred by the recovery
    assert shop.job(job).status is Status.PENDING
    assert [attempt.outcome for attempt in shop.job(job).attempts] != [Outcome.COMPLETED]


def test_a_cancel_that_stands_before_the_start_prevents_it(shop: Shop) -> None:
    job = stuck(shop)
    record = shop.board.record(0)
    shop.store.set_queue("default", paused=True)  # until the order stands
    worker = shop.fork(shop.config())
    record.lanes[0].order.write(*NO_ORDER._replace(cancel_job=UUID(job).bytes, cancel_claim=1))
    worker.until_ready()
    shop.store.set_queue("default", paused=False)
    over = shop.until_attempts(job, 1)
    assert over.attempts[0].outcome in (Outcome.CANCELLED, Outcome.RETURNED)
    assert ledger(shop) == []


def test_an_async_job_is_cancelled_at_its_timeout(shop: Shop) -> None:
    job = shop.enqueue("too_late", json.dumps({"ledger": str(shop.folder / "ledger")}), max_retries=0)
    shop.hire()
    over = shop.until_over(job)
    assert (over.status, over.reason) == (Status.FAILED, Reason.TIMEOUT)
    assert ledger(shop) == ["cleaned up"]
