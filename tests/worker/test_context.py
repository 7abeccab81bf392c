"""`pool.current()`: children, progress, checkpoint, and where it does not work."""

import json

import pytest

import pool
from pool.backends.contract import JobFilter
from pool.jobs.job import Job
from pool.jobs.lifecycle import Status
from pool.worker.context import NotInAJob
from tests.helpers.hired import Shop


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


def all_jobs(shop: Shop) -> list[Job]:
    return list(shop.store.jobs(JobFilter(), limit=500).jobs)
