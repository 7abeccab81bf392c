"""Rates as they are written, and the bucket: never more than it holds plus what has flowed in."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

import pool
from pool.errors import InvalidJob
from pool.jobs.checks import Options, Terms, new_job
from pool.jobs.limits import Bucket, Rate, parse_rate
from pool.jobs.registry import registry


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("100/m", Rate(100, 60)),
        ("5/s", Rate(5, 1)),
        ("1000 / hour", Rate(1000, 3600)),
        ("3/10s", Rate(3, 10)),
        ("2/d", Rate(2, 86_400)),
        ("", Rate()),
    ],
)
def test_a_rate_is_how_many_per_time(text: str, rate: Rate) -> None:
    assert parse_rate(text) == rate


@pytest.mark.parametrize("text", ["100", "m", "0/m", "-1/m", "1.5/s", "1/0s", "9999999/s", "1/y", "1/m; 2/m", "٣/m"])
def test_anything_else_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(InvalidJob, match=r"100/m|out of range"):
        parse_rate(text)


@given(
    count=st.integers(1, 1000),
    per_s=st.floats(0.1, 1e5),
    steps=st.lists(st.tuples(st.floats(-10, 1e4), st.integers(1, 50)), max_size=60),
)
def test_a_bucket_never_gives_more_than_it_held_and_what_flowed_in(
    count: int, per_s: float, steps: list[tuple[float, int]]
) -> None:
    bucket, now, latest, taken = Bucket(Rate(count, per_s), float(count), 0.0), 0.0, 0.0, 0
    for passed, asked in steps:
        before, now = now, now + passed
        latest += max(0.0, now - before)
        bucket.fill(now)
        taken += sum(bucket.take() for _ in range(asked))
        assert taken <= count + latest * count / per_s + 1
        assert 0 <= bucket.level <= count


@given(count=st.integers(1, 1000), per_s=st.floats(0.1, 1e5))
def test_at_the_time_it_names_the_next_start_is_there(count: int, per_s: float) -> None:
    bucket = Bucket(Rate(count, per_s), float(count), 1e9)
    while bucket.take():
        pass
    opens_at = bucket.opens_at
    assert opens_at is not None and opens_at - 1e9 <= per_s / count + 1e-6
    bucket.fill(opens_at + 1e-6)
    assert bucket.opens_at is None or bucket.opens_at - opens_at < 1e-3 * per_s / count + 1e-5


def test_a_declared_limit_goes_with_each_job_under_its_key() -> None:
    @pool.job(name="rules.limited", limit="10/m", max_running=2, limit_key="user-{user}")
    def limited(user: int) -> None: ...

    job = limited.draft(7)
    assert (job.limit_key, job.limit_count, job.limit_per_s, job.limit_running) == ("user-7", 10, 60.0, 2)
    assert limited.options(limit_key="vip").draft(7).limit_key == "vip"
    entries = registry.entries()
    entries.pop("rules.limited")
    registry.restore(entries)


def test_without_a_key_the_type_is_the_key_and_without_a_limit_there_is_none() -> None:
    assert new_job("a.b", "{}", Terms(max_running=1), Options()).limit_key == "a.b"
    assert new_job("a.b", "{}", Terms(), Options(limit_key="ignored")).limit_key is None


@pytest.mark.parametrize(
    "declaration", [{"limit": "often"}, {"max_running": -1}, {"max_running": 1.5}, {"limit_key": "alone"}]
)
def test_a_limit_that_makes_no_sense_is_refused_where_it_is_declared(declaration: dict[str, object]) -> None:
    with pytest.raises(InvalidJob):
        pool.job(name="rules.senseless", **declaration)(lambda: None)  # type: ignore[call-overload]
