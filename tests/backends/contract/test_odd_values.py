"""Odd values come back exactly as they went in, or are refused in words; nothing in between, and nothing foreign."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from pool.backends.contract import Backend, JobFilter, Want
from pool.errors import CallerError, JobNotFound
from pool.jobs.checks import checked_queue
from pool.jobs.job import Cause, Outcome
from pool.jobs.lifecycle import Reason, Status
from tests.helpers.builders import Hand, drain, new_job, put
from tests.helpers.states import unchanged

TEXTS = {
    "empty": "",
    "space": " \t\r\n ",
    "nul": "a\0b",
    "nul only": "\0",
    "emoji": "🎉🧑‍🚀",
    "combining": "e\u0301",
    "right to left": "\u202eabc",
    "lone surrogate": "a\ud800b",
    "byte order mark": "\ufeffx",
    "not a character": "\uffff\U0010ffff",
    "sql": "'; DROP TABLE jobs; --",
    "quotes": "\"'`\\",
    "pattern": "%_*?[a-z]",
    "braces": "{jobpool:x}{}",
    "colons": "a:b:c::",
    "format": "%s {0} $1 ?1 :name",
    "number": "0012",
    "long": "ä" * 200,
}


@pytest.fixture(params=TEXTS, ids=lambda name: name.replace(" ", "-"))
def text(request: pytest.FixtureRequest) -> str:
    return TEXTS[request.param]


def _told(text: str) -> set[str]:
    """What people may be shown of a text: itself, with half characters written out if it has any."""
    return {text, text.encode("utf-8", "backslashreplace").decode()}


def _exact_or_refused(store: Backend, act: Callable[[], Any]) -> bool:
    """Whether `act` was accepted; if not, it must be refused as the caller's matter and change nothing."""
    jobs_before = store.statistics().enqueued
    try:
        act()
    except CallerError as refusal:
        assert str(refusal)
        assert store.statistics().enqueued == jobs_before
        return False
    return True


@pytest.mark.parametrize("field", ["payload", "type", "queue", "owner", "idempotency_key", "unique_key"])
def test_a_text_in_a_field_is_kept_exactly_or_refused(store: Backend, hand: Hand, field: str, text: str) -> None:
    if field == "payload":
        text = json.dumps({"text": text}, ensure_ascii=False)
    job = new_job(**{field: text})
    other = put(store, queue="other", priority=0)
    if _exact_or_refused(store, lambda: store.enqueue([job])):
        assert getattr(store.job(job.id), field) == text
        claim = hand.take()
        assert claim.job_id == job.id
        if field in ("payload", "type", "queue", "owner"):
            assert getattr(claim, field) == text
        assert hand.complete()
    assert drain(hand) == [other]


def test_a_queue_of_any_name_is_served_counted_paused_and_purged(store: Backend, hand: Hand, text: str) -> None:
    """Of any name that `jobs.checks` lets through."""
    if not _exact_or_refused(store, lambda: checked_queue(text)):
        return
    job = new_job(queue=text)
    if not _exact_or_refused(store, lambda: store.enqueue([job])):
        return
    assert [queue.name for queue in store.queues()] == [text]
    store.set_queue(text, paused=True)
    assert hand.claim(Want((text,))) is None
    store.set_queue(text, paused=False)
    assert hand.take(Want((text,))).job_id == job.id
    hand.give_back()
    assert [each.id for each in store.jobs(JobFilter(queue=text)).jobs] == [job.id]
    assert store.purge(text, statuses=frozenset({Status.PENDING})) == 1


def test_what_a_job_says_of_itself_is_kept_exactly_or_refused(store: Backend, hand: Hand, text: str) -> None:
    job_id = put(store)
    hand.take()
    if _exact_or_refused(store, lambda: store.report(hand.as_held(), progress=0.5, note=text, checkpoint=text)):
        assert (store.job(job_id).progress_note or "") in _told(text)
        hand.give_back()
        assert hand.take().checkpoint in _told(text)
    assert hand.complete()


def test_results_errors_and_output_are_kept_exactly_or_refused(store: Backend, hand: Hand, text: str) -> None:
    job_id = put(store)
    hand.take()
    held = hand.held
    cause = Cause(reason=Reason.FATAL_ERROR, exception=text, text=text, stack=text)
    word = {"reason": Reason.FATAL_ERROR, "cause": cause, "output": text, "result": text}
    if _exact_or_refused(store, lambda: hand.settle(Outcome.FAILED, **word)):
        job = store.job(job_id)
        kept = job.attempts[-1].cause
        assert job.status is Status.FAILED and kept is not None
        for told in (job.error, job.exception, kept.exception, kept.text, kept.stack, job.attempts[-1].output):
            assert (told or "") in _told(text)
        return
    hand.held = held
    assert hand.fail(), "after a refusal the job is still in hand and can be settled with a cleaner word"


def test_a_result_is_kept_exactly_or_refused(store: Backend, hand: Hand, text: str) -> None:
    job_id = put(store)
    hand.take()
    result = json.dumps(text, ensure_ascii=False)
    if _exact_or_refused(store, lambda: hand.settle(result=result)):
        assert store.job(job_id).result in _told(result)


def test_a_look_for_odd_text_finds_no_stranger(store: Backend, text: str) -> None:
    put(store, type="plain", payload="{}")
    for which in (JobFilter(type=text), JobFilter(queue=text), JobFilter(owner=text), JobFilter(reason=text)):
        try:
            assert store.jobs(which).jobs == ()
        except CallerError as refusal:
            assert str(refusal)


def test_an_odd_id_is_not_found(store: Backend, text: str) -> None:
    put(store)
    for ask in (store.job, store.cancel, store.revive, store.discard):
        with unchanged(store), pytest.raises((JobNotFound, CallerError)):
            ask(text)


def test_a_schedule_of_any_name_ticks(store: Backend, text: str) -> None:
    if _exact_or_refused(store, lambda: store.tick(text, text, 1000.0, None)):
        assert store.last_tick(text) == 1000.0


# ---------------------------------------------------------------- sizes and numbers


@pytest.mark.parametrize("size", [2, 3, 65_479, 65_535, 65_536, 65_537, 1_000_000])
def test_a_payload_of_any_size_comes_back_whole(store: Backend, hand: Hand, size: int) -> None:
    payload = '"' + ("0123456789abcdef" * (size // 16 + 1))[: size - 2] + '"'
    job_id = put(store, payload=payload)
    assert hand.take().payload == payload
    assert store.job(job_id).payload == payload


def test_64_kib_of_anything_in_every_text_of_one_job(store: Backend, hand: Hand) -> None:
    big = json.dumps('☃ä\\"\n' * 8_000)
    job_id = put(store, payload=big)
    hand.take()
    store.report(hand.as_held(), checkpoint=big)
    hand.settle(result=big)
    assert (store.job(job_id).payload, store.job(job_id).result) == (big, big)


@pytest.mark.parametrize("payload", ['{"n": 123456789012345678901234567890}', "1e400", "-0.0", '{"a":1,"a":2}'])
def test_json_is_never_read_and_written_anew(store: Backend, hand: Hand, payload: str) -> None:
    put(store, payload=payload)
    assert hand.take().payload == payload


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("max_retries", 0),
        ("max_retries", 100),
        ("max_retries", 2**53 - 1),
        ("max_retries", 2**63),
        ("max_kills", 2**70),
        ("priority", 2**70),
        ("timeout", 0.001),
        ("timeout", 1e15),
        ("timeout", 86_399.999),
        ("run_at", 4_102_444_800.5),
        ("run_at", 253_402_300_800.0),
        ("delay", 3e9),
    ],
)
def test_numbers_are_kept_or_refused(store: Backend, field: str, value: float) -> None:
    job = new_job(**{field: value})
    if _exact_or_refused(store, lambda: store.enqueue([job])):
        stored = store.job(job.id)
        if field == "delay":
            assert stored.run_at == pytest.approx(stored.created_at + value, rel=1e-9)
        else:
            assert getattr(stored, field) == pytest.approx(value, rel=1e-9)


@pytest.mark.parametrize("run_at", [0.0, -1.0, -1e12])
def test_a_time_long_ago_is_now(store: Backend, hand: Hand, run_at: float) -> None:
    job = new_job(run_at=run_at)
    if _exact_or_refused(store, lambda: store.enqueue([job])):
        assert hand.take().job_id == job.id


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("field", ["run_at", "delay", "expires_in", "timeout"])
def test_what_is_no_number_never_makes_a_job_that_cannot_be_read(store: Backend, field: str, value: float) -> None:
    job = new_job(**{field: value})
    if _exact_or_refused(store, lambda: store.enqueue([job])):
        store.job(job.id)
        store.jobs(JobFilter())
        store.promote()
        store.statistics()


def test_a_settlement_with_an_impossible_claim_number_is_refused(store: Backend, hand: Hand) -> None:
    from dataclasses import replace

    from tests.helpers.builders import settlement

    put(store)
    claim = hand.take()
    for number in (2**63, 2**70, -(2**70), 0):
        with unchanged(store):
            try:
                answer = hand.exchange(settlement=settlement(replace(claim, claim=number)))
            except CallerError:
                continue
        assert answer.settled is False


@pytest.mark.parametrize("key", ["🔑", "ключ", "k" * 1_000, "a\nb"])
def test_keys_of_any_script_work(store: Backend, key: str) -> None:
    first = put(store, idempotency_key=key)
    assert put(store, idempotency_key=key) == first
    held = put(store, unique_key=key)
    assert put(store, unique_key=key) == held


def test_keys_that_look_alike_are_different(store: Backend) -> None:
    keys = ["é", "e\u0301", "E\u0301", "É", "a", "A", "a ", " a", "1", "01", "1.0"]
    assert len({put(store, idempotency_key=key) for key in keys}) == len(keys)
    assert len({put(store, unique_key=key) for key in keys}) == len(keys)
