"""How long failed jobs wait, and when they are given up."""

import math
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pool.errors import GiveUp, InvalidJob, JobTimeout, RetryAfter
from pool.jobs.lifecycle import Reason
from pool.jobs.policy import MAX_WAIT_S, Bury, Policy, Retry, exponential, policy_from, retry_after_of


class RateLimited(Exception):
    pass


class VeryRateLimited(RateLimited):
    pass


class CardDeclined(Exception):
    pass


def waits(policy: Policy, error: BaseException, max_retries: int) -> list[float]:
    """What a job that always fails like this waits before each retry; its end is checked on the way."""
    found = []
    for retry_count in range(max_retries):
        verdict = policy.judge(error, retry_count=retry_count, max_retries=max_retries)
        assert isinstance(verdict, Retry)
        found.append(verdict.delay_s)
    assert isinstance(policy.judge(error, retry_count=max_retries, max_retries=max_retries), Bury)
    return found


def test_a_mail_with_two_retries_waits_60_and_180_seconds() -> None:
    assert waits(policy_from(exponential(60, factor=3)), OSError("smtp"), 2) == [60, 180]


def test_a_table_repeats_its_last_wait() -> None:
    assert waits(policy_from([60, 300, 900, 3600]), OSError(), 6) == [60, 300, 900, 3600, 3600, 3600]


def test_a_single_number_is_a_table_of_one() -> None:
    assert waits(policy_from(5), OSError(), 3) == [5, 5, 5]  # type: ignore[arg-type]


def test_the_default_waits_are_15_30_60_with_a_tenth_of_jitter() -> None:
    for wait, base in zip(waits(Policy(), OSError(), 3), [15, 30, 60], strict=True):
        assert base <= wait <= base * 1.1


def test_the_most_specific_class_of_the_error_decides() -> None:
    policy = policy_from({Exception: [60, 300], RateLimited: [300, 900, 3600]})

    assert waits(policy, VeryRateLimited(), 3) == [300, 900, 3600]
    assert waits(policy, OSError(), 2) == [60, 300]


def test_an_error_of_no_listed_class_waits_as_the_default_says() -> None:
    policy = policy_from({RateLimited: [300]}, default=exponential(7))

    assert waits(policy, OSError(), 2) == [7, 14]


def test_a_retry_after_makes_the_wait_longer_and_never_shorter() -> None:
    policy = policy_from([60, 300])

    assert waits(policy, RetryAfter(100), 2) == [100, 300]


def test_any_error_that_carries_a_retry_after_is_heard() -> None:
    error = RateLimited()
    error.retry_after = "120"  # type: ignore[attr-defined]

    assert waits(policy_from([60, 300]), error, 2) == [120, 300]


@pytest.mark.parametrize("carried", [float("nan"), object(), True, "soon", ["60"]])
def test_a_retry_after_that_cannot_be_read_counts_as_300_seconds(carried: object) -> None:
    error = RateLimited()
    error.retry_after = carried  # type: ignore[attr-defined]

    assert retry_after_of(error) == 300


@pytest.mark.parametrize("seconds, heard", [(-5, 0), (float("inf"), MAX_WAIT_S), (1e30, MAX_WAIT_S), (0, 0)])
def test_a_retry_after_beyond_reason_is_bounded(seconds: float, heard: float) -> None:
    assert retry_after_of(RetryAfter(seconds)) == heard


@pytest.mark.parametrize(
    "header, seconds",
    [
        ("120", 120),
        (" 120 ", 120),
        ("0", 0),
        (None, 300),
        ("", 300),
        ("soon", 300),
        ("-5", 300),
        ("1.5", 300),
        ("²", 300),
    ],
)
def test_a_retry_after_header_in_seconds(header: str | None, seconds: float) -> None:
    assert RetryAfter.from_header(header).seconds == seconds


def test_a_retry_after_header_with_a_date() -> None:
    now = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
    later, earlier = now + timedelta(seconds=90), now - timedelta(seconds=90)

    assert RetryAfter.from_header(format_datetime(later, usegmt=True), now=now.timestamp()).seconds == 90
    assert RetryAfter.from_header(format_datetime(earlier, usegmt=True), now=now.timestamp()).seconds == 0
    assert RetryAfter.from_header("Fri, 31 Feb 2026 12:00:00 GMT", now=now.timestamp()).seconds == 300


@pytest.mark.parametrize("error", [GiveUp("no such account"), CardDeclined("do not honour")])
def test_what_can_never_succeed_is_failed_at_once(error: Exception) -> None:
    verdict = policy_from([60], fatal=(CardDeclined,)).judge(error, retry_count=0, max_retries=5)

    assert isinstance(verdict, Bury)
    assert verdict.reason is Reason.FATAL_ERROR
    assert str(error) in (verdict.cause.text or "")


def test_a_fatal_class_wins_over_a_backoff_of_its_subclass() -> None:
    policy = policy_from({VeryRateLimited: [5]}, fatal=(RateLimited,))

    assert isinstance(policy.judge(VeryRateLimited(), retry_count=0, max_retries=5), Bury)


def test_a_timeout_is_retried_and_in_the_end_failed_as_a_timeout() -> None:
    policy = policy_from([60])

    assert isinstance(policy.judge(JobTimeout(), retry_count=0, max_retries=1), Retry)
    end = policy.judge(JobTimeout(), retry_count=1, max_retries=1)
    assert isinstance(end, Bury)
    assert end.reason is Reason.TIMEOUT


def test_without_retries_the_first_error_is_the_last() -> None:
    verdict = policy_from([60]).judge(OSError(), retry_count=0, max_retries=0)

    assert isinstance(verdict, Bury)
    assert verdict.reason is Reason.RETRIES_EXHAUSTED


def test_the_cause_names_class_and_text_and_is_always_storable() -> None:
    class Rude(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no text for you")

    def cause(error: Exception) -> str:
        return Policy().judge(error, retry_count=0, max_retries=1).cause.text or ""

    assert "cannot be read" in cause(Rude())
    assert len(cause(ValueError("x" * 50_000))) == 10_000
    assert cause(ValueError("\ud800 and \0")) == "\\ud800 and \\x00"
    assert Policy().judge(ValueError(), retry_count=0, max_retries=1).cause.exception == "ValueError"


def test_a_wait_at_attempt_2000_is_the_cap_and_no_overflow() -> None:
    assert exponential(1, cap=300).wait(2000) == 300
    assert exponential(1, factor=1000, cap=300).wait(10**9) == 300
    assert exponential(1, factor=1, cap=300).wait(10**9) == 1
    assert policy_from([5]).backoff.wait(2000) == 5
    verdict = policy_from(exponential(1, cap=300, jitter=0.1)).judge(OSError(), retry_count=2000, max_retries=5000)
    assert isinstance(verdict, Retry)
    assert verdict.delay_s <= 330


@given(
    first=st.floats(0, 1e5),
    factor=st.floats(1, 1000),
    cap=st.floats(0, 1e6),
    retry=st.integers(1, 10_000),
    jitter=st.floats(0, 1),
)
def test_waits_never_shrink_and_stay_below_the_cap(
    first: float, factor: float, cap: float, retry: int, jitter: float
) -> None:
    backoff = exponential(first, factor, cap=cap, jitter=jitter)
    wait = backoff.wait(retry)

    assert math.isfinite(wait)
    assert 0 <= wait <= cap * (1 + 1e-9)
    assert wait <= backoff.wait(retry + 1) * (1 + 1e-9)
    assert wait * (1 - 1e-9) <= backoff.delay(retry) <= wait * (1 + jitter) * (1 + 1e-9)


@pytest.mark.parametrize(
    "declare",
    [
        lambda: exponential(-1),
        lambda: exponential(float("nan")),
        lambda: exponential(1, factor=0.5),
        lambda: exponential(1, cap=float("inf")),
        lambda: exponential(1, jitter=2),
        lambda: policy_from([]),
        lambda: policy_from([60, -1]),
        lambda: policy_from("60"),
        lambda: policy_from({"OSError": [60]}),
        lambda: policy_from(fatal=("OSError",)),
    ],
)
def test_a_rule_that_makes_no_sense_is_refused_where_it_is_declared(declare: object) -> None:
    with pytest.raises(InvalidJob):
        declare()  # type: ignore[operator]
