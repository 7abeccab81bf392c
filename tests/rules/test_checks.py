"""What callers ask for: each field in its range, or a sentence that names it."""

import json
from typing import Any

import pytest

from pool.errors import InvalidJob, PayloadTooLarge
from pool.jobs.checks import MAX_DEPTH, MAX_PAYLOAD, Terms, new_job, payload_text
from pool.jobs.ids import new_job_id


def made(payload: str = "{}", type_name: str = "a.b", **options: Any) -> Any:
    return new_job(type_name, payload, Terms(queue="q", max_retries=7, timeout=5), options)  # type: ignore[arg-type]


def test_what_the_caller_leaves_out_is_as_the_type_says() -> None:
    job = made()

    assert (job.queue, job.priority, job.max_retries, job.max_kills, job.timeout) == ("q", 10, 7, 3, 5)
    assert (job.run_at, job.delay, job.expires_in) == (None, 0, None)


def test_what_the_caller_says_wins() -> None:
    key = "🎉" * 200
    job = made(queue="größe", priority="critical", max_retries=0, timeout=0, delay=3, expires_in=9, idempotency_key=key)

    assert (job.queue, job.priority, job.max_retries, job.timeout, job.delay) == ("größe", 30, 0, 0, 3)
    assert (job.expires_in, job.idempotency_key, job.is_at_most_once) == (9, key, True)


def test_ids_are_made_here_or_taken_when_they_are_ids() -> None:
    mine = new_job_id()

    assert made(job_id=mine).id == mine
    assert made().id != made().id
    with pytest.raises(InvalidJob, match=r"job_id"):
        made(job_id="1")


@pytest.mark.parametrize(
    "field, value",
    [
        ("queue", ""), ("queue", "x" * 201), ("queue", "a\0b"), ("queue", "\ud800"), ("queue", "a\x85"), ("queue", 5),
        ("queue", "*"), ("queue", "a,b"), ("queue", " a"),
        ("priority", "urgent"), ("priority", 101), ("priority", -1), ("priority", True), ("priority", 1.5),
        ("max_retries", -1), ("max_retries", 101), ("max_retries", True), ("max_retries", "3"), ("max_retries", 2.0),
        ("max_kills", 0), ("max_kills", 101),
        ("timeout", -1), ("timeout", "10m"), ("timeout", float("nan")),
        ("delay", -1), ("delay", float("inf")), ("run_at", "2026-01-01T00:00:00"),
        ("expires_in", 0), ("expires_in", -1),
        ("idempotency_key", ""), ("idempotency_key", "x" * 201), ("idempotency_key", "a\nb"), ("unique_key", "\udc00"),
        ("on_success", {"type": "x"}), ("on_failure", "a.b"),
    ],
)  # fmt: skip
def test_a_field_out_of_range_or_form_is_named(field: str, value: object) -> None:
    with pytest.raises(InvalidJob, match=field):
        made(**{field: value})


@pytest.mark.parametrize("name", ["", "x" * 201, "a\tb", "\ud800", None])
def test_a_type_name_out_of_form_is_named(name: Any) -> None:
    with pytest.raises(InvalidJob, match=r"type"):
        made(type_name=name)


def test_run_at_and_delay_exclude_each_other() -> None:
    with pytest.raises(InvalidJob, match=r"run_at and delay"):
        made(run_at=1, delay=1)


def test_an_unknown_field_is_refused_with_the_nearest() -> None:
    with pytest.raises(InvalidJob, match=r"'prioritty'; did you mean 'priority'"):
        made(prioritty=1)


def test_the_payload_limit_counts_bytes_and_is_exact() -> None:
    frame = len('{"a":""}')
    assert made('{"a":"' + "x" * (MAX_PAYLOAD - frame) + '"}')
    with pytest.raises(PayloadTooLarge, match=r"65,537 bytes"):
        made('{"a":"' + "x" * (MAX_PAYLOAD - frame + 1) + '"}')
    with pytest.raises(PayloadTooLarge):
        made('{"a":"' + "é" * (MAX_PAYLOAD // 2) + '"}')


@pytest.mark.parametrize(
    "text", ["", "[]", "null", "{", '{"a":NaN}', '{"a":Infinity}', '{"a":"\ud800"}', r'{"a":"\ud800"}', r'{"\udfff":1}',
             '{"a":' + "[" * 200 + "]" * 200 + "}", '{"a":' + "[" * 20_000 + "]" * 20_000 + "}"],
)  # fmt: skip
def test_a_payload_that_some_reader_could_not_read_is_refused(text: str) -> None:
    with pytest.raises(InvalidJob, match=r"payload"):
        made(text)


@pytest.mark.parametrize("opening, closing", ["[]", ('{"a":', "}")])
def test_what_we_wrote_ourselves_may_still_be_too_deep(opening: str, closing: str) -> None:
    def of_depth(levels: int) -> str:
        return '{"a":' + opening * (levels - 1) + "1" + closing * (levels - 1) + "}"

    def made_here(text: str) -> Any:
        return new_job("a.b", text, Terms(), {}, is_ours=True)

    assert made_here(of_depth(MAX_DEPTH - 1)).payload == of_depth(MAX_DEPTH - 1)
    with pytest.raises(InvalidJob, match=r"deeper than 128"):
        made_here(of_depth(MAX_DEPTH))


@pytest.mark.parametrize("text", ['{"a":"\ud800"}', '{"a":"' + "é" * (MAX_PAYLOAD // 2) + '"}'])
def test_what_we_wrote_ourselves_may_still_be_no_text_or_too_long(text: str) -> None:
    with pytest.raises(InvalidJob, match=r"payload"):
        new_job("a.b", text, Terms(), {}, is_ours=True)


def test_what_one_caller_says_does_not_hold_for_the_next() -> None:
    terms = Terms(queue="q", limit="5/s")
    plain = new_job("a.b", "{}", terms, {})
    options = {"queue": "other", "priority": 3, "limit_key": "k", "delay": 5, "job_id": new_job_id()}
    asked = new_job("a.b", "{}", terms, options)  # type: ignore[arg-type]
    again, same = new_job("a.b", "{}", terms, {}), new_job("a.b", "{}", terms, {"queue": None})

    assert (asked.queue, asked.priority, asked.limit_key, asked.delay) == ("other", 3, "k", 5)
    for job in (plain, again, same):
        assert (job.queue, job.priority, job.limit_key, job.limit_count, job.delay) == ("q", 10, "a.b", 5, 0)
    assert len({job.id for job in (plain, again, same, asked)}) == 4


def test_a_number_of_the_type_that_a_caller_replaces_may_be_out_of_range() -> None:
    terms = Terms(max_retries=1000)
    with pytest.raises(InvalidJob, match=r"max_retries"):
        new_job("a.b", "{}", terms, {})

    assert new_job("a.b", "{}", terms, {"max_retries": 4}).max_retries == 4


def test_odd_but_legal_payloads_are_kept_as_they_are() -> None:
    for value in ({"🎉": "\0"}, {"n": 2**200}, {"f": 1e-300}, {"deep": [[[[{}]]]]}, {"pair": "\U0001f600"}):
        text = payload_text(value)
        assert json.loads(made(text).payload) == value


@pytest.mark.parametrize("value", [[1], "x", None, {"a": {1, 2}}, {"a": float("nan")}, {"a": object()}])
def test_what_is_no_json_object_is_refused_as_a_payload(value: Any) -> None:
    with pytest.raises(InvalidJob, match=r"payload"):
        payload_text(value)
