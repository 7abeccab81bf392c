"""What can be judged of the dashboard's looks without eyes: contrast, charts, groups, sentences. Pure."""

import re
from pathlib import Path

import pytest

import pool
from pool.backends.contract import QueueState, Statistics
from pool.board.tally import BOUNDS_S
from pool.jobs.fingerprint import fingerprint_of as fingerprint
from pool.jobs.job import Job
from pool.jobs.lifecycle import Reason, Status
from pool.web.dashboard import charts
from pool.web.dashboard.listing import groups
from pool.web.dashboard.survey import Sample, Snapshot
from pool.web.dashboard.verdict import troubles
from pool.web.dashboard.waits import Waits, waits_in

STYLE = (Path(pool.__file__).parent / "web" / "dashboard" / "assets" / "style.css").read_text()
TEXT_ON = [
    ("text", "bg"), ("text", "panel"), ("text", "raised"), ("muted", "bg"), ("muted", "panel"), ("muted", "raised"),
    ("accent", "panel"), ("accent", "bg"), ("accent", "accent-soft"), ("on-accent", "accent"), ("good", "good-soft"),
    ("warn", "warn-soft"), ("bad", "bad-soft"), ("info", "info-soft"), ("bad", "panel"), ("warn", "panel"),
    ("text", "good-soft"), ("text", "warn-soft"), ("text", "bad-soft"), ("muted", "bad-soft"), ("muted", "warn-soft"),
    ("accent", "bad-soft"), ("accent", "warn-soft"), ("text", "accent-soft"), ("bad", "raised"),
]  # fmt: skip
SHAPES_ON = [("good-fill", "panel"), ("bad-fill", "panel"), ("busy", "panel"), ("accent", "line")]


def colours(mode: str) -> dict[str, str]:
    block = STYLE.split(":root {" if mode == "light" else ':root[data-theme="dark"] {')[1].split("}")[0]
    return dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", block))


def brightness(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    bright, dim = sorted((brightness(one), brightness(other)), reverse=True)
    return (bright + 0.05) / (dim + 0.05)


@pytest.mark.parametrize("mode", ["light", "dark"])
@pytest.mark.parametrize(("text", "ground"), TEXT_ON)
def test_text_has_the_contrast_of_wcag_aa(mode: str, text: str, ground: str) -> None:
    known = colours(mode)
    assert contrast(known[text], known[ground]) >= 4.5


@pytest.mark.parametrize("mode", ["light", "dark"])
@pytest.mark.parametrize(("shape", "ground"), SHAPES_ON)
def test_shapes_that_mean_something_have_it_too(mode: str, shape: str, ground: str) -> None:
    known = colours(mode)
    assert contrast(known[shape], known[ground]) >= 3


def test_the_two_ways_into_the_dark_have_the_same_colours() -> None:
    by_system = STYLE.split(':root:not([data-theme="light"]) {')[1].split("}")[0]
    assert dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", by_system)) == colours("dark")


# ---------------------------------------------------------------- charts


def test_a_chart_says_in_words_what_it_shows() -> None:
    hours = [{"hour": f"2026-01-01T{n:02}:00:00.000Z", "completed": n, "failed": 1} for n in range(24)]
    assert (
        'aria-label="Completed and failed jobs by hour (UTC), last 24 hours: 276 completed, 24 failed"'
        in charts.day(hours)
    )


def test_bars_stay_inside_the_chart() -> None:
    hours = [{"hour": "2026-01-01T00:00:00Z", "completed": 10**9, "failed": 10**9}] * 24
    for y, height in re.findall(r'y="([-\d.]+)" width="[\d.]+" height="([-\d.]+)"', charts.day(hours)):
        assert float(y) >= 0
        assert float(y) + float(height) <= charts.HEIGHT


def test_an_empty_hour_and_a_single_sample_are_drawn() -> None:
    assert "0 completed" in charts.hour((), 1000.0)
    assert "0 completed" in charts.hour((Sample(1000.0, 5, 0, 0, 0, 0.0),), 1000.0)
    assert charts.per_minute((Sample(1000.0, 5, 0, 0, 0, 0.0),)) is None
    assert charts.spark([1.0], "x") == ""


def test_minutes_are_counted_from_the_samples_and_a_reset_counter_is_no_minus() -> None:
    samples = [Sample(1000.0 + 5 * n, 10 * n, n, 0, 0, 0.0) for n in range(13)]
    assert "120 completed, 12 failed" in charts.hour(samples, 1060.0)
    assert charts.per_minute(samples) == 120
    assert "0 completed" in charts.hour([Sample(1.0, 50, 0, 0, 0, 0.0), Sample(6.0, 0, 0, 0, 0, 0.0)], 10.0)


def test_what_happened_while_nobody_looked_is_spread_over_its_minutes() -> None:
    samples = [Sample(0.0, 0, 0, 0, 0, 0.0), Sample(600.0, 95, 7, 0, 0, 0.0), Sample(605.0, 96, 7, 0, 0, 0.0)]
    chart = charts.hour(samples, 610.0)
    assert "last hour: 96 completed, 7 failed" in chart
    counts = [int(count) for count in re.findall(r"<title>[^:]+: (\d+) completed", chart) if int(count)]
    assert len(counts) == 10
    assert max(counts) == 11


def test_a_line_of_the_last_hour_is_even_in_time_though_its_older_samples_lie_further_apart() -> None:
    samples = [Sample(60.0 * n, 0, 0, 0, n, 0.0) for n in range(30)]
    samples += [Sample(1800.0 + 5 * n, 0, 0, 0, 30 + n, 0.0) for n in range(360)]
    points = charts.series(samples, "pending")
    assert 70 <= len(points) <= 101
    assert points[-1] == 389
    assert 25 <= sum(point < 30 for point in points) <= 50


@pytest.mark.parametrize(
    ("counts", "half_s", "most_s"),
    [([4, 0, 0, 0], 0.005, 0.005), ([94, 0, 0, 6], 0.005, 0.05), ([0, 10, 10, 0], 0.01, 0.025)],
)
def test_waits_are_told_by_the_bounds_below_which_they_lie(counts: list[int], half_s: float, most_s: float) -> None:
    rest = [0] * (len(BOUNDS_S) + 1 - len(counts))
    readings = {"before": [7] * (len(BOUNDS_S) + 1), "after": [7 + count for count in [*counts, *rest]]}
    assert waits_in({"waits": readings}) == Waits(sum(counts), half_s, most_s)


def test_nothing_is_told_of_waits_where_no_job_has_started() -> None:
    nothing = [0] * (len(BOUNDS_S) + 1)
    assert (
        waits_in(None)
        is waits_in({"waits": None})
        is waits_in({"waits": {"before": nothing, "after": nothing}})
        is None
    )
    longest = waits_in({"waits": {"before": nothing, "after": [*nothing[:-1], 5]}})
    assert longest == Waits(5, None, None)


# ---------------------------------------------------------------- dead letters


def dead(error: str, job_type: str = "mail", reason: Reason = Reason.RETRIES_EXHAUSTED, at: float = 1.0) -> Job:
    nothing = dict.fromkeys(
        ("idempotency_key", "unique_key", "parent_id", "expires_at", "claimed_at", "started_at", "worker_id", "result",
         "progress", "progress_note")
    )  # fmt: skip
    return Job(
        id="0190b0a0-0000-7000-8000-000000000000", type=job_type, queue="q", payload="{}", priority=10,
        status=Status.FAILED, retry_count=3, max_retries=3, kill_count=0, max_kills=3, timeout=0, owner="local",
        run_at=0, created_at=0, updated_at=at, finished_at=at, claim=1, cancel_requested=False, reason=reason,
        error=error, exception="ConnectionError", **nothing,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("order 17 declined", "order 4711 declined"),
        ("no such file '/a/b'", "no such file '/c'"),
        ("mail to ada@example.org bounced", "mail to bob@example.com bounced"),
        ("lock 0xdeadbeef", "lock 0x1"),
        ("job 0190b0a0-0000-7000-8000-000000000000 lost", "job 0190b0a0-1111-7111-8111-111111111111 lost"),
    ],
)
def test_errors_that_differ_in_numbers_and_names_are_of_one_kind(one: str, other: str) -> None:
    assert fingerprint(dead(one)) == fingerprint(dead(other))


def test_other_types_reasons_and_words_are_other_kinds() -> None:
    keys = {fingerprint(job) for job in (dead("a"), dead("b"), dead("a", "image"), dead("a", reason=Reason.TIMEOUT))}
    assert len(keys) == 4


def test_the_largest_group_comes_first_with_its_first_and_last_time() -> None:
    found = groups([dead("x", at=9.0), dead("n 1", at=5.0), dead("n 2", at=3.0)])
    assert [(group.count, group.first, group.last) for group in found] == [(2, 3.0, 5.0), (1, 9.0, 9.0)]


# ---------------------------------------------------------------- the sentence


def numbers(**more: object) -> Statistics:
    counts = dict.fromkeys(
        ("enqueued", "completed", "retried", "failed", "cancelled", "worker_deaths", "delayed", "overdue"), 0
    )
    return Statistics(**{**counts, "next_due": None, "hours": (), "backend": {}, **more})  # type: ignore[arg-type]


def said(now: Snapshot) -> str:
    return " ".join(trouble.says for trouble in troubles(now))


def test_a_store_that_is_away_is_all_that_is_said() -> None:
    now = Snapshot(1.0, queues=(QueueState(name="q", overdue=5),), trouble="connection refused")
    assert len(troubles(now)) == 1
    assert "connection refused" in said(now)


def test_without_a_pool_the_first_word_is_that() -> None:
    assert "No pool is running" in said(Snapshot(1.0, statistics=numbers()))


def test_what_stops_jobs_stands_before_what_can_wait() -> None:
    queues = (QueueState(name="held", paused=True, pending=3), QueueState(name="late", overdue=5))
    found = troubles(Snapshot(1.0, queues=queues, statistics=numbers()))
    assert [trouble.is_bad for trouble in found] == sorted((trouble.is_bad for trouble in found), reverse=True)
    assert "5 jobs of late are overdue" in said(Snapshot(1.0, queues=queues, statistics=numbers()))


def test_a_degraded_pool_and_a_failed_reload_are_said() -> None:
    status = {
        "pool": {"name": "house", "state": "degraded", "problems": [], "last_reload": {"ok": False, "error": "bad key"}}
    }
    words = said(Snapshot(1.0, statistics=numbers(), status=status))
    assert "house is degraded" in words
    assert "The last reload failed: bad key" in words
