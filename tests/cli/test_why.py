"""`jobs why`: the sentence that a person needs, for each place where a job can rest."""

import dataclasses
from typing import Any

import pytest

from pool.backends.contract import PoolState, QueueState
from pool.identity import PoolId
from pool.jobs.job import Job
from pool.jobs.lifecycle import Reason, Status
from pool.why import reasons

NOW = 1_800_000_000.0
JOB = Job(
    id="j", type="tasks.a", queue="mail", payload="{}", priority=10, status=Status.PENDING, retry_count=0,
    max_retries=3, kill_count=0, max_kills=3, timeout=0.0, owner="local", idempotency_key=None, unique_key=None,
    parent_id=None, run_at=NOW, expires_at=None, created_at=NOW - 60, updated_at=NOW - 60, claimed_at=None,
    started_at=None, finished_at=None, worker_id=None, claim=0, cancel_requested=False, reason=None, error=None,
    exception=None, result=None, progress=None, progress_note=None,
)  # fmt: skip


def pool_serving(*queues: str, age_s: float = 1.0, lost: bool = False) -> PoolState:
    facts = {"groups": {"workers": {"count": 2, "queues": list(queues)}}}
    return PoolState(pool=PoolId("p", "h", "i"), age_s=age_s, lost=lost, facts=facts)


@pytest.mark.parametrize(
    ("change", "queue", "pools", "sentence"),
    [
        ({}, {}, [], "No pool is running on this store"),
        ({}, {}, [pool_serving("*", lost=True)], "No pool is running on this store"),
        ({}, {}, [pool_serving("*", age_s=3600)], "No pool is running on this store"),
        ({}, {}, [pool_serving("other")], "No running pool serves its queue mail"),
        ({}, {"paused": True}, [pool_serving("*")], "Its queue mail is paused: jobpool resume mail"),
        ({}, {"pending": 7}, [pool_serving("mail")], "It waits for a free worker; 7 jobs wait in mail"),
        ({"misfits": 2}, {}, [pool_serving("*")], "It was handed back 2 times"),
        ({"status": Status.SCHEDULED, "run_at": NOW + 600}, {}, [], "It is due in 10 m 0 s"),
        (
            {"status": Status.SCHEDULED, "run_at": NOW - 600},
            {},
            [],
            "It has been due for 10 m 0 s and nobody started it",
        ),
        ({"status": Status.SCHEDULED, "retry_count": 2, "error": "no"}, {}, [], "It failed 2 of 4 times (no)"),
        (
            {"status": Status.RUNNING, "started_at": NOW - 5, "worker_id": "w"},
            {},
            [],
            "It runs for 5.0 s on w (attempt 1)",
        ),
        ({"status": Status.RUNNING, "cancel_requested": True}, {}, [], "It was asked to stop"),
        ({"status": Status.COMPLETED, "finished_at": NOW}, {}, [], "It completed at"),
        ({"status": Status.FAILED, "reason": Reason.WORKER_LOST, "kill_count": 3}, {}, [], "It killed 3 workers"),
        ({"status": Status.FAILED, "reason": Reason.FATAL_ERROR}, {}, [], "jobpool dead retry j"),
        ({"status": Status.CANCELLED, "reason": Reason.EXPIRED}, {}, [], "It was not started before it expired"),
    ],
)
def test_it_is_said_where_the_job_is_and_what_to_do(
    change: dict[str, Any], queue: dict[str, Any], pools: list[PoolState], sentence: str
) -> None:
    job = dataclasses.replace(JOB, **change)
    said = reasons(job, [QueueState(name="mail", **queue)], pools, now=NOW)
    assert any(sentence in line for line in said), said


def test_every_state_has_an_explanation() -> None:
    for status in Status:
        assert reasons(dataclasses.replace(JOB, status=status), [], [], now=NOW)
