"""`pool.testing`: programs that enqueue, tested without a store and without workers."""

import asyncio
import threading
from datetime import UTC, datetime
from typing import Any

import pytest

import pool
from pool.jobs.lifecycle import Reason, Status
from pool.testing import InlineJobs, inline, recording


@pool.job(name="t.double", max_retries=0)
def double(n: int) -> int:
    return 2 * n


@pool.job(name="t.flaky", max_retries=3, backoff=[5, 7])
def flaky(fails: int) -> str:
    attempt = pool.current().attempt
    if attempt <= fails:
        raise OSError(f"attempt {attempt}")
    return f"attempt {attempt}"


@pool.job(name="t.parent")
def parent(n: int) -> None:
    pool.current().progress(0.5, "half")
    pool.current().enqueue(double, n=n)
    if n < 0:
        raise pool.GiveUp("negative")


@pool.job(name="t.later")
async def later(n: int) -> int:
    await asyncio.sleep(0)
    return n + 1


def test_a_job_runs_at_once_and_its_result_is_there(jobpool_inline: InlineJobs) -> None:
    receipt = double.enqueue(4)

    assert jobpool_inline.assert_enqueued(double, n=4).result == 8
    assert pool.Client().wait(receipt, timeout=0).result == "8"
    jobpool_inline.assert_all_completed()


def test_any_client_of_the_process_is_stood_in_for(jobpool_inline: InlineJobs) -> None:
    pool.Client("redis://127.0.0.1:1/0").enqueue(double, {"n": 5})
    pool.Client("sqlite:////nowhere/x.db").enqueue("t.double", {"n": 6})

    assert [record.result for record in jobpool_inline.of(double)] == [10, 12]


def test_retries_run_without_their_waits_which_are_recorded(jobpool_inline: InlineJobs) -> None:
    flaky.enqueue(fails=3)

    record = jobpool_inline.assert_enqueued(flaky)
    assert (record.result, record.waits, record.retry_count) == ("attempt 4", [5, 7, 7], 3)


def test_an_error_is_recorded_as_in_a_pool_or_raised_on_request() -> None:
    with inline() as jobs:
        flaky.enqueue(fails=9)
        record = jobs.records[0]
        assert (record.status, record.reason, len(record.errors)) == (Status.FAILED, Reason.RETRIES_EXHAUSTED, 4)
        with pytest.raises(AssertionError, match=r"t\.flaky.*failed.*attempt 4"):
            jobs.assert_all_completed()
    with inline(raise_errors=True), pytest.raises(OSError, match="attempt 4"):
        flaky.enqueue(fails=9)


def test_children_are_enqueued_only_when_the_parent_completes(jobpool_inline: InlineJobs) -> None:
    parent.enqueue(3)
    parent.enqueue(-3)

    assert [record.arguments for record in jobpool_inline.of(double)] == [{"n": 3}]
    assert jobpool_inline.of(double)[0].new.parent_id == jobpool_inline.of(parent)[0].new.id
    assert jobpool_inline.of(parent)[0].progress_note == "half"


def test_follow_ups_run_after_success_or_failure(jobpool_inline: InlineJobs) -> None:
    parent.options(on_success=later.draft(1), on_failure=later.draft(2)).enqueue(1)
    parent.options(on_success=later.draft(3), on_failure=later.draft(4)).enqueue(-1)

    assert [record.result for record in jobpool_inline.of(later)] == [2, 5]


async def _beside_a_loop() -> pool.Receipt:
    later.enqueue(20)
    return await later.enqueue_async(30)


def test_async_jobs_run_with_and_without_a_loop_around_them(jobpool_inline: InlineJobs) -> None:
    later.enqueue(10)
    asyncio.run(_beside_a_loop())

    assert [record.result for record in jobpool_inline.of(later)] == [11, 21, 31]


def test_a_delayed_job_waits_for_its_time(jobpool_inline: InlineJobs) -> None:
    double.enqueue_in(60, 1)
    double.enqueue_at(datetime(2200, 1, 1, tzinfo=UTC), 2)
    double.enqueue_at(datetime(2000, 1, 1, tzinfo=UTC), 3)
    assert [record.status.value for record in jobpool_inline.records] == ["scheduled", "scheduled", "completed"]

    jobpool_inline.run_scheduled()

    jobpool_inline.assert_all_completed()


def test_keys_answer_as_a_store_does(jobpool_inline: InlineJobs) -> None:
    first = double.options(idempotency_key="k").enqueue(1)
    again = double.options(idempotency_key="k").enqueue(2)
    unique = double.options(unique_key="u", delay=9).enqueue(1)

    assert (again.job_id, again.replayed, again.payload_differs) == (first.job_id, True, True)
    assert double.options(unique_key="u").enqueue(1).job_id == unique.job_id
    jobpool_inline.run_scheduled()
    assert not double.options(unique_key="u").enqueue(1).replayed


def test_recording_runs_nothing_until_asked(jobpool_recorded: InlineJobs) -> None:
    double.enqueue(1)
    assert jobpool_recorded.records[0].status is Status.PENDING

    jobpool_recorded.run_pending()

    assert jobpool_recorded.records[0].result == 2


def test_the_assertions_say_what_there_is() -> None:
    with recording() as jobs:
        double.enqueue(1)
        jobs.assert_not_enqueued(double, n=2)
        with pytest.raises(AssertionError, match=r"no t\.double\(n=2\) was enqueued; there is: t\.double"):
            jobs.assert_enqueued(double, n=2)
        with pytest.raises(AssertionError, match="was enqueued"):
            jobs.assert_not_enqueued(double)


def test_a_result_that_cannot_be_stored_fails_the_job_here_too(jobpool_inline: InlineJobs) -> None:
    @pool.job
    def careless() -> Any:
        return {1, 2}

    careless.enqueue()

    record = jobpool_inline.records[0]
    assert (record.reason, record.waits) == (Reason.FATAL_ERROR, [])
    assert "set" in str(record.error)


def test_wrong_arguments_are_refused_here_too(jobpool_inline: InlineJobs) -> None:
    with pytest.raises(pool.InvalidPayload, match="n: missing"):
        pool.Client().enqueue(double, {})
    assert jobpool_inline.records == []


def test_threads_of_the_program_may_enqueue(jobpool_inline: InlineJobs) -> None:
    threads = [threading.Thread(target=flaky.enqueue, args=(1,)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    jobpool_inline.assert_all_completed()
    assert len(jobpool_inline.records) == 8


def test_cancel_and_retry_follow_the_table_of_moves(jobpool_inline: InlineJobs) -> None:
    client = pool.Client()
    waiting = double.enqueue_in(60, 1)
    failed = parent.enqueue(-1)

    assert client.cancel(waiting).status is Status.CANCELLED
    assert client.retry(failed, {"n": 5}).status is Status.COMPLETED
    with pytest.raises(pool.errors.IllegalMove):
        client.cancel(failed)
    with pytest.raises(pool.JobNotFound):
        client.get("nothing")


def test_a_batch_calls_back_inline_when_all_of_it_is_over(jobpool_inline: InlineJobs) -> None:
    @pool.job
    def part(n: int) -> None:
        if n < 0:
            raise pool.GiveUp("negative")

    @pool.job
    def done(how: str) -> None: ...

    good = pool.batch(
        [(part, {"n": n}) for n in range(3)], on_complete=done.draft("over"), on_success=done.draft("well")
    )
    assert (good.state().completed, good.progress) == (3, 1.0)
    jobpool_inline.assert_enqueued(done, how="well")
    bad = pool.batch(
        [(part, {"n": 1}), (part, {"n": -1})], on_complete=done.draft("over"), on_success=done.draft("never")
    )
    assert (bad.state().failed, len(jobpool_inline.of(done, how="over"))) == (1, 2)
    jobpool_inline.assert_not_enqueued(done, how="never")
