"""What a store remembers beside jobs: who did what, settings, who edited a payload, the last job of a schedule entry."""

import pytest

from pool.backends.contract import AuditEntry, Backend
from pool.errors import JobNotFound
from pool.jobs.ids import new_job_id
from pool.jobs.job import Outcome
from pool.jobs.lifecycle import Status
from tests.helpers.builders import new_job, put
from tests.helpers.states import make


def test_the_audit_log_keeps_who_and_when_newest_first(store: Backend, stores) -> None:
    before = store.server_now()
    for number in range(5):
        store.note(AuditEntry(who="alice@host", act="dead retry", details=f'{{"n": {number}}}'))
    entries = stores().audit(3)
    assert [entry.details for entry in entries] == ['{"n": 4}', '{"n": 3}', '{"n": 2}']
    assert {(entry.who, entry.act) for entry in entries} == {("alice@host", "dead retry")}
    assert all(before - 1 <= entry.at <= store.server_now() + 1 for entry in entries)


def test_any_text_may_stand_in_the_audit_log(store: Backend) -> None:
    entry = AuditEntry(who="zoë 🦊", act="\x01\n", details='{"a": "\\u0000"}')
    store.note(entry)
    kept = store.audit()[0]
    assert (kept.who, kept.act, kept.details) == (entry.who, entry.act, entry.details)


def test_a_setting_is_shared_and_the_last_word_holds(store: Backend, stores) -> None:
    assert store.setting("redact") is None
    store.set_setting("redact", "one")
    store.set_setting("redact", "två")
    assert stores().setting("redact") == "två"


def test_an_edited_payload_stands_in_the_history_with_who_did_it(store: Backend, hands) -> None:
    made = make(store, "failed", hands(), payload='{"a": 1}')
    before = store.server_now()
    store.revive(made.job_id, payload='{"a": 2}', by="alice@host")
    failed, edited = store.job(made.job_id).attempts
    assert (edited.number, edited.worker, edited.outcome, edited.started_at) == (
        0,
        "alice@host",
        Outcome.RETURNED,
        None,
    )
    assert edited.cause is not None and edited.cause.text == "its payload was replaced by hand"
    assert before - 1 <= edited.ended_at <= store.server_now() + 1
    assert failed.outcome is Outcome.FAILED
    hand = hands()
    assert (hand.take().attempt, hand.complete()) == (1, True)
    assert [attempt.number for attempt in store.job(made.job_id).attempts] == [1, 0, 1]


def test_deleted_jobs_are_gone_and_running_ones_stay(store: Backend, hands) -> None:
    hand = hands()
    running = put(store, priority=100)
    hand.take()
    waiting, delayed = put(store, unique_key="u"), put(store, delay=60.0)
    failed = make(store, "failed", hands(), priority=99)
    gone = [waiting, delayed, failed.job_id]
    assert store.delete([running, *gone, new_job_id(), "no id"]) == 3
    for job_id in gone:
        with pytest.raises(JobNotFound):
            store.job(job_id)
    assert store.job(running).status is Status.RUNNING
    assert [(q.pending, q.scheduled, q.running, q.failed) for q in store.queues()] == [(0, 0, 1, 0)]
    assert not store.enqueue([new_job(unique_key="u")])[0].replayed


def test_a_schedule_entry_remembers_its_last_job(store: Backend) -> None:
    assert store.last_job("nightly") is None
    store.tick("nightly", "1", 10.0, None)
    assert store.last_job("nightly") is None
    receipt = store.tick("nightly", "1", 20.0, new_job())
    assert receipt is not None and store.last_job("nightly") == receipt.job_id
    store.tick("nightly", "1", 30.0, None)
    assert store.last_job("nightly") == receipt.job_id
