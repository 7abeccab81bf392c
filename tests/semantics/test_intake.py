"""What is let in: whole batches, room, keys, times, the schedule, odd values (points 3, 4, 5 and the odd values)."""

import math
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import pool
from pool.errors import InvalidJob, QueueFull
from pool.jobs.lifecycle import Status
from tests.helpers.house import House


def test_a_batch_enters_whole_or_not_at_all(house: House) -> None:
    house.wait_for(lambda: [q.max_pending for q in house.store.queues() if q.name == "narrow"] == [3], "max_pending")
    house.store.set_queue("narrow", paused=True)
    house.client.enqueue_many([("tasks.quick", {}, {"queue": "narrow"})] * 2)
    with pytest.raises(QueueFull):
        house.client.enqueue_many([("tasks.quick", {}, {"queue": "narrow"})] * 2)
    assert house.counts("narrow")["pending"] == 2
    house.store.set_queue("narrow", paused=False)


def test_the_same_idempotency_key_gives_the_first_job(house: House) -> None:
    first = house.client.enqueue("tasks.quick", {"n": 1}, idempotency_key="once")
    again = house.client.enqueue("tasks.quick", {"n": 2}, idempotency_key="once")
    assert (again.job_id, again.replayed, again.payload_differs) == (first.job_id, True, True)
    house.wait_until(first.job_id, "completed")
    assert house.client.enqueue("tasks.quick", {"n": 1}, idempotency_key="once").status is Status.COMPLETED


def test_a_declared_unique_key_keeps_one_live_job(house: House) -> None:
    first = house.client.enqueue("tasks.report", {"day": "monday", "gate": "monday"})
    assert house.client.enqueue("tasks.report", {"day": "monday", "gate": "x"}).job_id == first.job_id
    house.release("monday")
    house.wait_until(first.job_id, "completed")
    again = house.client.enqueue("tasks.report", {"day": "monday", "gate": "monday"})
    assert not again.replayed
    house.wait_until(again.job_id, "completed")


def test_a_delayed_job_starts_when_it_is_due_and_not_before(house: House) -> None:
    due = datetime.now(UTC) + timedelta(seconds=0.7)
    job = house.wait_until(house.client.enqueue("tasks.quick", run_at=due).job_id, "completed")
    assert job.started_at is not None and job.started_at >= due.timestamp()
    with pytest.raises(InvalidJob, match="time zone"):
        house.client.enqueue("tasks.quick", run_at=datetime(2030, 1, 1, 8))


def test_the_schedule_fires_and_shows_what_became_of_its_last_job(house: House) -> None:
    house.wait_for(lambda: house.store.last_job("every-second"), "the first tick")
    house.wait_until(str(house.store.last_job("every-second")), "completed")
    (entry,) = house.cli_json("schedule", "list")
    assert (entry["name"], entry["outcome"] in ("completed", "running", "pending")) == ("every-second", True)
    assert entry["last"] and entry["next"]


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    "value",
    [
        "a\0b", "\x1b[31m", "🐘" * 100, 2**63, -(2**200), 1e308, 0.1, -0.0, "", [], {}, None, nested(100),
        {"🔑": 1, "": 2, "a\0": 3}, {"$": [{}] * 100}, "\u2028\ufeff", "'; DROP TABLE jobs; --", ["\uffff"],
    ],
    ids=lambda value: ascii(value)[:20],
)  # fmt: skip
def test_odd_values_come_through_exactly(house: House, value: Any) -> None:
    receipt = house.client.enqueue("tasks.echo", {"value": value})
    job = house.wait_until(receipt.job_id, "completed")
    from pool.jobs.documents import as_value

    assert as_value(job.payload) == {"value": value}
    assert as_value(job.result) == value


@pytest.mark.parametrize(
    ("payload", "words"),
    [
        ({"value": math.nan}, "NaN|nan|JSON|finite"),
        ({"value": math.inf}, "inf|JSON|finite"),
        ({"value": "\ud800"}, "surrogate"),
        ({"\udfff": 1}, "surrogate"),
        ({"value": nested(200)}, "nested"),
        ({"value": "x" * (65_536 - len('{"value":""}') + 1)}, "65,537 bytes"),
        ({"value": {1, 2}}, "JSON|set"),
    ],
    ids=["nan", "infinity", "half a character", "half a character as a key", "too deep", "a byte too long", "a set"],
)
def test_what_cannot_be_kept_is_refused_in_a_sentence(house: House, payload: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidJob, match=words):
        house.client.enqueue("tasks.echo", payload)


def test_a_payload_of_exactly_the_limit_comes_through(house: House) -> None:
    value = "x" * (65_536 - len('{"value":""}'))
    job = house.wait_until(house.client.enqueue("tasks.echo", {"value": value}).job_id, "completed")
    assert len(job.payload) == 65_536


@pytest.mark.parametrize("queue", ["ключ", "🐘", "a b", "q\"u'o", "x" * 200, "$(rm -rf /)", "%s", "../up"])
def test_odd_queue_names_and_keys_work(house: House, queue: str) -> None:
    receipt = house.client.enqueue("tasks.quick", queue=queue, idempotency_key=queue, unique_key=queue)
    job = house.wait_until(receipt.job_id, "completed")
    assert (job.queue, job.idempotency_key, job.unique_key) == (queue, queue, queue)


@pytest.mark.parametrize("name", ["", " x", "a\nb", "a\0b", "\ud800", "x" * 201, "*", "a,b"])
def test_names_that_could_mislead_are_refused(house: House, name: str) -> None:
    with pytest.raises(pool.InvalidJob):
        house.client.enqueue("tasks.quick", queue=name)
