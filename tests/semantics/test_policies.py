"""Error policies: who tries again and when, and who gives up (issue point 1), in a running pool on each store."""

import pytest

from pool.jobs.lifecycle import Reason
from tests.helpers.house import House


def test_a_listed_error_is_tried_again_after_its_own_backoff(house: House) -> None:
    job = house.wait_until(house.enqueue("tasks.moody", {"until": 3}), "completed")
    assert (job.result, job.retry_count) == ("3", 2)
    assert [attempt.outcome for attempt in job.attempts] == ["retried", "retried", "completed"]
    assert job.attempts[0].cause is not None and job.attempts[0].cause.exception == "tasks.Busy"


@pytest.mark.parametrize("mood", ["hopeless", "give up"])
def test_what_can_never_succeed_is_a_dead_letter_at_once(house: House, mood: str) -> None:
    job = house.wait_until(house.enqueue("tasks.moody", {"mood": mood}), "failed")
    assert (job.reason, job.retry_count, len(job.attempts)) == (Reason.FATAL_ERROR, 0, 1)


@pytest.mark.parametrize(("mood", "least_s"), [("slow", 3500), ("asks", 7100)])
def test_the_longer_of_backoff_and_retry_after_is_waited(house: House, mood: str, least_s: float) -> None:
    job = house.wait_until(house.enqueue("tasks.moody", {"mood": mood}), "scheduled")
    assert job.run_at - house.store.server_now() > least_s
    assert job.retry_count == 1
    house.client.cancel(job.id)


def test_a_job_beyond_its_timeout_fails_as_a_timeout(house: House) -> None:
    job = house.wait_until(house.enqueue("tasks.too_slow"), "failed")
    assert job.reason is Reason.TIMEOUT
