"""The documents that the command line and the HTTP API print."""

import dataclasses
import json

import pytest

from pool.jobs.documents import as_value, cause_text, job_document
from pool.jobs.job import Attempt, Cause, Outcome
from pool.jobs.lifecycle import Reason
from tests.cli.test_why import JOB, NOW

# Section 10 of the design: what every reader may count on.
PROMISED = [
    "id",
    "type",
    "queue",
    "payload",
    "priority",
    "status",
    "retry_count",
    "max_retries",
    "idempotency_key",
    "run_at",
    "claimed_at",
    "worker_id",
    "error",
    "reason",
    "result",
    "progress",
    "attempts",
    "created_at",
    "updated_at",
    "started_at",
    "finished_at",
]


def test_a_job_document_has_every_promised_field_and_is_json() -> None:
    document = job_document(JOB)
    assert set(PROMISED) <= document.keys()
    assert json.loads(json.dumps(document)) == document
    assert document["run_at"] == "2027-01-15T08:00:00.000Z"
    assert document["payload"] == {}


def test_what_is_not_json_is_shown_as_it_is() -> None:
    assert job_document(dataclasses.replace(JOB, payload="{broken"))["payload"] == "{broken"
    assert (as_value(None), as_value("null"), as_value("[1]")) == (None, None, [1])


def test_redacted_fields_are_hidden() -> None:
    job = dataclasses.replace(JOB, payload='{"token": "s3cr3t", "amount": 5}')
    assert job_document(job, {"token"})["payload"] == {"token": "***", "amount": 5}


def test_attempts_say_how_they_ended() -> None:
    cause = Cause(reason=Reason.WORKER_LOST, signal=9)
    attempt = Attempt(number=1, worker="w", started_at=NOW, ended_at=NOW + 1, outcome=Outcome.LOST, cause=cause)
    (document,) = job_document(dataclasses.replace(JOB, attempts=(attempt,)))["attempts"]
    assert (document["outcome"], document["cause"]["signal"]) == ("lost", 9)


@pytest.mark.parametrize(
    ("cause", "text"),
    [
        (None, ""),
        (Cause(exception="ValueError", text="no"), "ValueError: no"),
        (Cause(exception="KeyError"), "KeyError"),
        (Cause(signal=9), "signal 9"),
        (Cause(exit_code=0), "exit code 0"),
        (Cause(reason=Reason.TIMEOUT), "timeout"),
    ],
)
def test_a_cause_in_a_few_words(cause: Cause | None, text: str) -> None:
    assert cause_text(cause) == text
