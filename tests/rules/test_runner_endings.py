"""How an attempt ended, and what the store is told of it."""

from typing import Any

import pytest

from pool.backends.contract import MAX_MISFITS
from pool.errors import GiveUp, InvalidPayload, JobCancelled, JobClaimLost, JobTimeout, RetryAfter, UnknownType
from pool.jobs.job import Claim, NewJob, Outcome
from pool.jobs.lifecycle import Reason
from pool.jobs.policy import Policy, Table
from pool.jobs.registry import JobType
from pool.worker import endings
from pool.worker.endings import Ending
from pool.worker.results import ResultNotStorable
from pool.worker.timeouts import JobInterrupted

TYPE = JobType(name="tests.work", function=lambda: None, policy=Policy(Table((7.0,)), fatal=(KeyError,)))


def claim(**fields: Any) -> Claim:
    return Claim(
        **{
            "job_id": "id", "claim": 4, "type": "tests.work", "queue": "default", "payload": "{}", "priority": 10,
            "attempt": 1, "retry_count": 0, "max_retries": 3, "kill_count": 0, "misfits": 0, "timeout": 0.0,
            "created_at": 0.0, "claimed_at": 0.0, "claimed_boottime": 0.0, **fields,
        }
    )  # fmt: skip


@pytest.mark.parametrize(
    ("error", "retries_used", "max_retries", "outcome", "reason"),
    [
        (ValueError("x"), 0, 3, Outcome.RETRIED, None),
        (ValueError("x"), 3, 3, Outcome.FAILED, Reason.RETRIES_EXHAUSTED),
        (ValueError("x"), 0, 0, Outcome.FAILED, Reason.RETRIES_EXHAUSTED),
        (KeyError("x"), 0, 3, Outcome.FAILED, Reason.FATAL_ERROR),
        (GiveUp("x"), 0, 3, Outcome.FAILED, Reason.FATAL_ERROR),
        (JobTimeout("x"), 0, 3, Outcome.RETRIED, None),
        (JobTimeout("x"), 3, 3, Outcome.FAILED, Reason.TIMEOUT),
        (SystemExit(0), 0, 3, Outcome.RETRIED, None),
        (JobCancelled("x"), 0, 3, Outcome.CANCELLED, Reason.CANCELLED),
        (JobClaimLost("x"), 0, 3, Outcome.RETURNED, None),
        (JobClaimLost("x"), 0, 0, Outcome.FAILED, Reason.INTERRUPTED),
        (JobInterrupted("x"), 0, 3, Outcome.RETURNED, None),
        (JobInterrupted("x"), 0, 0, Outcome.FAILED, Reason.INTERRUPTED),
        (ResultNotStorable("x"), 0, 3, Outcome.FAILED, Reason.FATAL_ERROR),
    ],
)
def test_the_verdict_over_an_error(
    error: BaseException, retries_used: int, max_retries: int, outcome: Outcome, reason: Reason | None
) -> None:
    ending = Ending(children=(NewJob(id="child", type="t"),), output="said", started_at=5.0)
    settled = endings.ended_by_error(claim(retry_count=retries_used, max_retries=max_retries), TYPE, ending, error)
    assert (settled.outcome, settled.reason, settled.claim) == (outcome, reason, 4)
    assert settled.children == (), "what a failed attempt enqueued does not exist"
    assert (settled.output, settled.started_at) == ("said", 5.0)


def test_the_wait_is_the_policys_or_what_the_error_asks_for() -> None:
    assert endings.ended_by_error(claim(), TYPE, Ending(), ValueError()).delay == 7.0
    assert endings.ended_by_error(claim(), TYPE, Ending(), RetryAfter(600)).delay == 600.0


def test_a_policy_that_breaks_does_not_cost_the_job() -> None:
    class Broken(Policy):
        def judge(self, *args: Any, **kwargs: Any) -> Any:
            raise ZeroDivisionError

    broken = JobType(name="t", function=lambda: None, policy=Broken())
    assert endings.ended_by_error(claim(), broken, Ending(), ValueError()).outcome is Outcome.RETRIED
    last = endings.ended_by_error(claim(retry_count=3), broken, Ending(), ValueError())
    assert (last.outcome, last.reason) == (Outcome.FAILED, Reason.RETRIES_EXHAUSTED)


@pytest.mark.parametrize(
    ("error", "reason"),
    [(UnknownType("x"), Reason.UNKNOWN_TYPE), (InvalidPayload("x", {"f": "missing"}), Reason.INVALID_PAYLOAD)],
)
def test_a_misfit_is_handed_back_some_times_and_then_given_up(error: Any, reason: Reason) -> None:
    for misfits in range(MAX_MISFITS):
        back = endings.misfit(claim(misfits=misfits), error)
        assert (back.outcome, back.misfit, back.delay) == (Outcome.RETURNED, True, 10.0)
    last = endings.misfit(claim(misfits=MAX_MISFITS), error)
    assert (last.outcome, last.misfit, last.reason) == (Outcome.FAILED, False, reason)


def test_a_claim_that_never_started_goes_back_at_once_at_no_cost() -> None:
    back = endings.unstarted(claim())
    assert (back.outcome, back.delay, back.misfit, back.started_at) == (Outcome.RETURNED, 0.0, False, None)
