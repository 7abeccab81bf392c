"""The history of a job, and the counters that outlive its record."""

import pytest

from pool.backends.contract import Backend
from pool.jobs.job import KEPT_ATTEMPTS, Cause, Outcome
from pool.jobs.lifecycle import Reason, Status
from tests.helpers.builders import died_working, put
from tests.helpers.states import make
from tests.helpers.until import until


def test_each_attempt_is_kept_with_its_cause(store: Backend, hands) -> None:
    job_id = put(store, max_retries=9)
    first, second, third = hands(), hands(), hands()
    first.take()
    started = store.server_now()
    cause = Cause(exception="Timeout", text="no answer from bank", stack="Traceback: f.py line 3")
    first.settle(Outcome.RETRIED, cause=cause, output="calling bank\n", started_at=started)
    second.take()
    store.recover(died_working(second))
    third.take()
    third.settle(started_at=store.server_now(), output="done")
    kept = store.job(job_id).attempts
    assert [attempt.outcome for attempt in kept] == [Outcome.RETRIED, Outcome.LOST, Outcome.COMPLETED]
    assert [attempt.number for attempt in kept] == [1, 2, 3]
    assert [attempt.worker for attempt in kept] == [str(hand.lane) for hand in (first, second, third)]
    assert kept[0].cause is not None
    assert (kept[0].cause.exception, kept[0].cause.text) == ("Timeout", "no answer from bank")
    assert kept[0].cause.stack == "Traceback: f.py line 3"
    assert (kept[0].output, kept[2].output) == ("calling bank\n", "done")
    assert kept[0].started_at == pytest.approx(started, abs=0.01)
    assert kept[0].ended_at >= started - 0.01
    assert kept[1].cause is not None and (kept[1].cause.reason, kept[1].cause.signal) == (Reason.WORKER_LOST, 9)


def test_an_exit_code_is_kept(store: Backend, hands) -> None:
    job_id = put(store)
    hand = hands()
    hand.take()
    from dataclasses import replace

    note = replace(died_working(hand), cause=Cause(reason=Reason.WORKER_LOST, exit_code=70))
    store.recover(note)
    cause = store.job(job_id).attempts[-1].cause
    assert cause is not None and (cause.exit_code, cause.signal) == (70, None)


def test_the_newest_ten_attempts_are_kept(store: Backend, hand) -> None:
    job_id = put(store, max_retries=100)
    for number in range(1, 26):
        hand.take()
        hand.settle(Outcome.RETRIED, cause=Cause(text=f"error {number}"), started_at=store.server_now())
    kept = store.job(job_id).attempts
    assert len(kept) == KEPT_ATTEMPTS
    assert [attempt.cause.text for attempt in kept if attempt.cause] == [f"error {n}" for n in range(16, 26)]
    assert [attempt.number for attempt in kept] == list(range(16, 26))
    assert store.job(job_id).error == "error 25"


def test_a_long_text_and_output_are_kept_whole(store: Backend, hand) -> None:
    job_id = put(store)
    hand.take()
    text, output = "ä" * 10_000, "☃\n" * 4_000
    hand.settle(Outcome.FAILED, reason=Reason.FATAL_ERROR, cause=Cause(text=text), output=output)
    job = store.job(job_id)
    assert job.attempts[-1].output == output
    assert job.attempts[-1].cause is not None and job.attempts[-1].cause.text == text
    assert job.error == text


def test_lists_of_jobs_come_without_their_attempts(store: Backend) -> None:
    from pool.backends.contract import JobFilter

    make(store, "failed")
    assert [job.attempts for job in store.jobs(JobFilter()).jobs] == [()]


# ---------------------------------------------------------------- counters


def test_counters_count_what_happened(store: Backend, hands) -> None:
    hand = hands()
    for end in (hand.complete, hand.complete, hand.fail):
        put(store)
        hand.take()
        end()
    put(store)
    hand.take()
    hand.retry()
    store.cancel(put(store))
    numbers = store.statistics()
    assert (numbers.enqueued, numbers.completed, numbers.failed, numbers.retried, numbers.cancelled) == (5, 2, 1, 1, 1)


def test_counters_outlive_the_records(store: Backend) -> None:
    make(store, "completed")
    make(store, "failed")
    until(lambda: store.forget(completed_s=0.0, failed_s=0.0, idempotency_s=0.0) == 0, "the records' end")
    numbers = store.statistics()
    assert (numbers.enqueued, numbers.completed, numbers.failed) == (2, 1, 1)


def test_counters_outlive_the_client(store: Backend, stores) -> None:
    make(store, "completed")
    store.close()
    assert stores().statistics().completed == 1


def test_the_last_24_hours_are_shown_oldest_first_with_zeros(store: Backend) -> None:
    from pool.clock import as_rfc3339

    make(store, "completed")
    make(store, "failed")
    hours = store.statistics().hours
    assert len(hours) == 24
    names = [hour["hour"] for hour in hours]
    assert names == sorted(names) and len(set(names)) == 24
    now = as_rfc3339(store.server_now()) or ""
    assert names[-1][:13] <= now[:13]
    assert all(name.endswith("Z") and name[14:16] == "00" for name in names)
    sums = {key: sum(hour[key] for hour in hours) for key in ("enqueued", "completed", "retried", "failed")}
    assert sums == {"enqueued": 2, "completed": 1, "retried": 0, "failed": 1}
    assert hours[0]["enqueued"] == 0


def test_a_hand_back_is_no_retry_in_the_counters(store: Backend, hand) -> None:
    put(store)
    hand.take()
    hand.give_back()
    assert store.statistics().retried == 0


def test_a_lost_job_that_is_given_up_counts_as_failed(store: Backend, hands) -> None:
    hand = hands()
    job_id = put(store, max_retries=0)
    hand.take()
    store.recover(died_working(hand))
    assert store.job(job_id).status is Status.FAILED
    assert store.statistics().failed == 1
