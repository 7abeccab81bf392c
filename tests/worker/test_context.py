"""`pool.current()`: children, progress, checkpoint, and where it does not work."""

import json

import pytest

import pool
from pool.backends.contract import JobFilter
from pool.jobs.job import Job
from pool.jobs.lifecycle import Reason, Status
from pool.worker.context import NotInAJob
from tests.helpers.hired import Shop
from tests.helpers.until import until


def test_outside_a_job_there_is_no_current_job() -> None:
    with pytest.raises(NotInAJob, match="only inside a running job"):
        pool.current()


def test_children_are_enqueued_with_the_completion(shop: Shop) -> None:
    parent = shop.enqueue("parent_of", '{"count": 3}')
    worker = shop.hire(burst=True)
    worker.until_ended()
    children = [job for job in all_jobs(shop) if job.parent_id == parent]
    assert len(children) == 3
    assert {job.status for job in children} == {Status.COMPLETED}
    assert shop.job(parent).status is Status.COMPLETED


def test_children_of_a_failed_attempt_do_not_exist(shop: Shop) -> None:
    parent = shop.enqueue("parent_of", '{"count": 3, "fail": true}', max_retries=0)
    worker = shop.hire(burst=True)
    worker.until_ended()
    assert shop.job(parent).status is Status.FAILED
    assert [job.id for job in all_jobs(shop)] == [parent]


def test_a_checkpoint_is_there_at_the_next_attempt(shop: Shop) -> None:
    ledger = shop.folder / "ledger"
    job = shop.enqueue("resumed", json.dumps({"ledger": str(ledger)}))
    shop.hire()
    shop.until_attempts(job, 1)
    assert (shop.job(job).progress, shop.job(job).progress_note) == (0.5, "half")
    shop.store.cancel(job)
    shop.store.revive(job)

    over = shop.until_over(job)

    assert over.result == '"resumed at 7"'
    assert ledger.read_text().splitlines()[1].endswith("restored {'step': 7}")


def test_children_that_do_not_fit_are_refused_at_the_call(shop: Shop) -> None:
    job = shop.enqueue("wrong_children")
    shop.hire()
    assert json.loads(shop.until_over(job).result or "") == ["InvalidPayload", "UnknownType", "InvalidPayload"]


def test_a_job_learns_from_its_own_report_that_it_was_cancelled(shop: Shop) -> None:
    ledger = shop.folder / "ledger"
    job = shop.enqueue("telling", json.dumps({"ledger": str(ledger)}))
    shop.hire()
    until(ledger.exists, "the start")
    shop.store.cancel(job)
    assert shop.until_over(job).status is Status.CANCELLED
    assert ledger.read_text().split() == ["start", "JobCancelled"]


def test_a_job_learns_from_its_own_report_that_its_claim_is_lost(shop: Shop) -> None:
    ledger = shop.folder / "ledger"
    job = shop.enqueue("telling", json.dumps({"ledger": str(ledger)}))
    worker = shop.hire()
    until(ledger.exists, "the start")
    shop.recover(worker, Reason.INTERRUPTED)
    until(lambda: "JobClaimLost" in ledger.read_text(), "the end of the job")
    assert worker.until_ended() == 0
    assert shop.job(job).status is Status.PENDING


def test_a_thread_of_a_job_is_heard_but_may_not_talk_to_the_store(shop: Shop) -> None:
    job = shop.enqueue("threaded")
    shop.hire()
    over = shop.until_over(job)
    name, refusal = json.loads(over.result or "")
    assert name.endswith("threaded") and "from the job's own thread" in refusal
    assert "from the thread" in over.attempts[0].output


def all_jobs(shop: Shop) -> list[Job]:
    return list(shop.store.jobs(JobFilter(), limit=500).jobs)
