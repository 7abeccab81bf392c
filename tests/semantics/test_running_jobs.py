"""Chains, progress, cancelling, expiry, `why`, commands, async, output, secrets (points 6 to 9, 11, 12, 16 and 18)."""

import json
from typing import Any

import pytest

import pool
from pool.backends.contract import JobFilter, Want
from pool.errors import InvalidPayload
from pool.jobs.lifecycle import Reason, Status
from tests.helpers.builders import Hand
from tests.helpers.house import House
from tests.semantics.conftest import log_of


def test_a_child_exists_exactly_when_its_parent_completed(house: House) -> None:
    parent = house.wait_until(house.enqueue("tasks.parent"), "completed")
    child = house.wait_until(json.loads(parent.result or ""), "completed")
    assert (child.parent_id, child.result) == (parent.id, "7")
    childless = house.enqueue("tasks.parent", {"fail": True})
    house.wait_until(childless, "failed")
    assert all(job.parent_id != childless for job in house.store.jobs(JobFilter(type="tasks.quick"), limit=500).jobs)


def test_what_follows_success_or_failure_does(house: House) -> None:
    good, bad = house.client.draft("tasks.quick", {"n": 1}), house.client.draft("tasks.quick", {"n": 2})
    house.wait_until(house.client.enqueue("tasks.quick", on_success=good, on_failure=bad).job_id, "completed")
    house.wait_until(good.id, "completed")
    good2, bad2 = house.client.draft("tasks.quick"), house.client.draft("tasks.quick")
    house.wait_until(
        house.client.enqueue("tasks.broken", {"order": 1}, on_success=good2, on_failure=bad2).job_id, "failed"
    )
    house.wait_until(bad2.id, "completed")
    for never in (bad.id, good2.id):
        with pytest.raises(pool.JobNotFound):
            house.job(never)


def test_progress_is_seen_and_a_checkpoint_is_there_at_the_next_attempt(house: House) -> None:
    job_id = house.client.enqueue("tasks.steps", {"gate": "steps"}, max_retries=1).job_id
    house.wait_for(lambda: house.job(job_id).progress == 0.5, "the progress")
    assert house.job(job_id).progress_note == "half way"
    assert "half way" in house.cli("jobs", "list", "--status", "running").stdout
    (said,) = house.wait_for(
        lambda: progress_of(house.status(), job_id), "it in the status, once it has run for a while"
    )
    assert said == (0.5, "half way")
    assert f"tasks.steps {job_id}, 50 % half way" in house.cli("status").stdout
    house.release("steps")
    house.wait_for(lambda: house.job(job_id).retry_count == 1, "the retry")
    house.client.cancel(job_id)
    house.client.retry(job_id)
    assert house.client.wait(job_id, 60).result == '["first","second"]'


def progress_of(status: dict[str, Any], job_id: str) -> list[tuple[float, str]]:
    """What a status says of a job that says how far it is."""
    jobs = [job for worker in status["workers"] for job in worker["jobs"]]
    return [(job["progress"], job["note"]) for job in jobs if job["id"] == job_id and job["progress"] is not None]


def test_a_job_that_ignores_its_cancel_is_ended_by_force(house: House) -> None:
    job_id = house.enqueue("tasks.stubborn")
    worker = house.wait_for_worker_of(job_id)
    assert "asked job" in house.cli("jobs", "cancel", job_id).stdout
    house.wait_for(lambda: any(n["what"] == "swallowed" and n["job"] == job_id for n in house.notes()), "the refusal")
    assert house.job(job_id).status is Status.RUNNING
    assert "cancelled job" in house.cli("jobs", "cancel", "--force", job_id).stdout
    job = house.job(job_id)
    assert (job.status, job.reason) == (Status.CANCELLED, Reason.CANCELLED)
    house.wait_for(lambda: worker.pid not in house.worker_pids(), "the end of the worker")


def test_a_job_cancelled_while_waiting_or_expired_never_runs(house: House) -> None:
    house.store.set_queue("gone", paused=True)
    cancelled = house.enqueue("tasks.quick", queue="gone")
    expiring = house.enqueue("tasks.quick", queue="gone", expires_in=0.3)
    assert house.client.cancel(cancelled).status is Status.CANCELLED
    assert house.wait_until(expiring, "cancelled").reason is Reason.EXPIRED
    house.store.set_queue("gone", paused=False)
    house.wait_until(house.enqueue("tasks.quick", queue="gone"), "completed")
    assert house.runs(cancelled) == house.runs(expiring) == []


def test_why_says_what_holds_a_job(house: House) -> None:
    def why(job_id: str) -> str:
        return " ".join(house.cli_json("jobs", "why", job_id)["why"])

    house.store.set_queue("still", paused=True)
    first, second = (house.enqueue("tasks.quick", queue="still") for _ in range(2))
    assert "paused: jobpool resume still" in why(first)
    assert house.store.ahead(second) == 1
    foreign = house.store.enqueue([house.client.draft("tasks.quick", queue="php")])[0].job_id
    assert "No running pool serves its queue php" in why(foreign) or "waits for a free worker" in why(foreign)
    holding = house.enqueue("tasks.hold", {"gate": "why"})
    house.wait_for_worker_of(holding)
    said = why(holding)
    assert "It runs for" in said and "held since" in said
    house.release("why")
    house.store.purge("still", statuses=frozenset({Status.PENDING}))


def test_a_result_beyond_max_result_is_a_failed_attempt_that_says_so(house: House) -> None:
    kept, refused = (house.enqueue("tasks.long_text", {"length": length}) for length in (99_998, 99_999))
    assert house.wait_until(kept, "completed").result == f'"{"x" * 99_998}"'
    job = house.wait_until(refused, "failed")
    assert (job.reason, job.result, len(house.runs(refused))) == ("fatal_error", None, 1)
    assert job.error is not None
    assert "it has 100,001 bytes, the limit is 100,000 (jobs.max_result)" in job.error


def test_a_command_gets_its_payload_without_a_shell_and_its_output_is_kept(house: House) -> None:
    job = house.wait_until(house.client.enqueue("shell.greet", {"name": "a b; $HOME"}).job_id, "completed")
    assert json.loads(job.result or "") == {"greeted": "a b; $HOME"}
    assert 'hello a b; $HOME, {"name":"a b; $HOME"}' in job.attempts[0].output
    shown = house.cli("logs", job.id).stdout
    assert "--- attempt 1, completed" in shown and "hello a b; $HOME" in shown


def test_async_jobs_run_in_a_group_of_their_own(house: House) -> None:
    ids = [house.client.enqueue("tasks.ripple", {"day": "2026-05-01"}, queue="async").job_id for _ in range(8)]
    assert {house.wait_until(job_id, "completed").result for job_id in ids} == {'"2026-05-01"'}


def test_the_log_of_a_worker_and_of_a_running_job_can_be_read(house: House) -> None:
    job_id = house.enqueue("tasks.hold", {"gate": "log"})
    worker = house.wait_for_worker_of(job_id)
    said = house.cli("logs", job_id).stdout
    assert "attempt 1, running on house@" in said and "waiting at log" in said
    assert f"/{worker.slot}: " in house.cli("logs", str(worker.slot)).stdout
    house.release("log")
    house.wait_until(job_id, "completed")


def test_secret_fields_are_masked_wherever_the_job_is_told_of(house: House) -> None:
    payload = {"token": "tok-4711-SECRET", "card": {"number": "4000-1234-5678"}}
    job = house.wait_until(house.client.enqueue("tasks.pay", payload).job_id, "failed")
    shown = house.cli("jobs", "show", job.id, "--json").stdout + house.cli("logs", job.id).stdout
    told = [job.error, str(job.attempts), job.progress_note, shown, log_of(house)]
    assert job.error == "card *** was refused, token '***'"
    assert "paying 1 with ***" in job.attempts[0].output
    for text in told:
        assert text and "tok-4711-SECRET" not in text and "4000-1234-5678" not in text
    assert json.loads(job.payload) == payload  # the worker gets what was given


def test_a_type_of_another_language_is_checked_and_left_to_its_own_workers(house: House) -> None:
    with pytest.raises(InvalidPayload, match="path"):
        house.client.enqueue("php.thumbnail", {"paht": "x"})
    receipt = house.client.enqueue("php.thumbnail", {"path": "cat.png", "secret": "s3cr3t-value"})
    assert house.job(receipt.job_id).queue == "php"
    assert "s3cr3t-value" not in house.cli("jobs", "show", receipt.job_id).stdout
    hand = Hand(house.store)
    while (claim := hand.take(Want(("php",), lease_seconds=30.0))).job_id != receipt.job_id:
        hand.complete()
    assert claim.type == "php.thumbnail"
    assert hand.complete()
