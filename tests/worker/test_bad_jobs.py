"""Whatever a job does, its worker lives and the next job runs in an orderly process."""

import json

import pytest

from pool.jobs.job import Job
from pool.jobs.lifecycle import Reason, Status
from tests.helpers.hired import Shop
from tests.helpers.until import until


def outcome_of(shop: Shop, how: str) -> Job:
    """The job's end; the same worker must run another job after it."""
    bad = shop.enqueue("bad", json.dumps({"how": how}), max_retries=1)
    after = shop.enqueue("pid")
    worker = shop.hire()
    over, next_job = shop.until_over(bad), shop.until_over(after)
    assert next_job.result == str(worker.pid), worker.text()
    assert not worker.has_ended()
    return over


def cause_of(job: Job) -> tuple[str, str]:
    cause = job.attempts[-1].cause
    assert cause is not None
    return cause.exception or "", cause.text or ""


@pytest.mark.parametrize(
    ("how", "exception"),
    [
        ("exits", "SystemExit"),
        ("interrupts", "KeyboardInterrupt"),
        ("recurses", "RecursionError"),
        ("unspeakable", "tests.worker.app.Unspeakable"),
        ("base exception", "BaseException"),
        ("surrogate text", "ValueError"),
    ],
)
def test_a_job_that_raises_anything_is_tried_again_and_given_up(shop: Shop, how: str, exception: str) -> None:
    over = outcome_of(shop, how)
    assert (over.status, over.reason) == (Status.FAILED, Reason.RETRIES_EXHAUSTED)
    assert len(over.attempts) == 2
    assert cause_of(over)[0] == exception


def test_an_error_text_of_ten_megabytes_is_cut(shop: Shop) -> None:
    assert len(cause_of(outcome_of(shop, "long text"))[1]) <= 10_000


def test_the_stack_names_file_and_line_without_absolute_paths_or_our_frames(shop: Shop) -> None:
    cause = outcome_of(shop, "base exception").attempts[-1].cause
    assert cause is not None and cause.stack is not None
    assert "tests/worker/app.py:" in cause.stack
    assert "runner.py" not in cause.stack
    assert not any(line.strip().startswith("/") for line in cause.stack.splitlines())


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("object", "object"),
        ("set", "set"),
        ("bytes", "bytes"),
        ("file", "TextIOWrapper"),
        ("nan", "NaN"),
        ("surrogate", "lone surrogate"),
        ("cycle", "contains itself"),
        ("deep", "nested too deep"),
        ("deeper than readers", "nested deeper"),
    ],
)
def test_a_result_that_cannot_be_stored_fails_once_and_says_why(shop: Shop, how: str, words: str) -> None:
    over = outcome_of(shop, how)
    assert (over.status, over.reason, len(over.attempts)) == (Status.FAILED, Reason.FATAL_ERROR, 1)
    assert words in cause_of(over)[1]


@pytest.mark.parametrize("how", ["changes everything", "starts a thread"])
def test_what_a_job_changes_in_its_process_does_not_reach_the_worker(shop: Shop, how: str) -> None:
    assert outcome_of(shop, how).status is Status.COMPLETED
    assert shop.hired[0].stop() == 0


def test_a_worker_whose_descriptors_were_closed_settles_and_asks_to_be_replaced(shop: Shop) -> None:
    job = shop.enqueue("bad", '{"how": "closes descriptors"}')
    worker = shop.hire()
    assert shop.until_over(job).status is Status.COMPLETED
    assert worker.stop() == 0


def test_a_forked_child_that_comes_back_is_no_second_worker(shop: Shop) -> None:
    assert outcome_of(shop, "forks and comes back").result == '"status 0"'


def test_a_forked_child_exits_with_its_own_code(shop: Shop) -> None:
    assert outcome_of(shop, "forks and exits").result == '"code 3"'


def test_programs_that_a_job_starts_have_ordinary_signals(shop: Shop) -> None:
    over = outcome_of(shop, "subprocess")
    assert "SIGTERM" in cause_of(over)[1]


def test_a_job_that_prints_without_end_keeps_the_end(shop: Shop) -> None:
    job = shop.enqueue("flood", '{"lines": 100000}')
    shop.hire()
    output = shop.until_over(job).attempts[0].output
    assert len(output.encode()) <= 16 * 1024
    assert output.endswith("line 99999 " + "x" * 100 + "\n")
    assert (shop.folder / "log").stat().st_size < 8_000_000


def test_what_a_job_says_is_kept_and_logged_with_its_id(shop: Shop) -> None:
    job = shop.enqueue("spoken", '{"words": "hello there"}')
    shop.hire()
    output = shop.until_over(job).attempts[0].output
    for words in ("hello there", "to stderr", "through logging", "as bytes"):
        assert words in output
    log = shop.folder / "log"
    line = until(lambda: next((line for line in log.read_text().splitlines() if "hello there" in line), ""), "its line")
    assert job in line
