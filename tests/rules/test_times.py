"""Times that callers write: one meaning everywhere, or refused."""

from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from zoneinfo import ZoneInfo

import pytest

from pool.errors import InvalidJob
from pool.jobs.times import parse_span, parse_time

MOMENT = datetime(2026, 3, 1, 12, 30, 15, 250_000, tzinfo=UTC)


@pytest.mark.parametrize(
    "written",
    [
        MOMENT,
        MOMENT.astimezone(timezone(timedelta(hours=8))),
        MOMENT.astimezone(ZoneInfo("America/New_York")),
        "2026-03-01T12:30:15.250Z",
        "2026-03-01t12:30:15.250z",
        "2026-03-01 12:30:15.25Z",
        "2026-03-01T20:30:15.250+08:00",
        "2026-03-01T12:30:15.250-00:00",
        "2026-03-01T12:30:15.250000000Z",
        " 2026-03-01T12:30:15.250Z ",
        MOMENT.timestamp(),
        str(MOMENT.timestamp()),
    ],
)
def test_every_clear_form_is_the_same_moment(written: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Shanghai")

    assert parse_time(written) == MOMENT.timestamp()  # type: ignore[arg-type]


@pytest.mark.parametrize("written", [datetime(2026, 3, 1, 12, 30), "2026-03-01T12:30:00", "2026-03-01 12:30"])
def test_a_time_without_a_zone_is_refused_with_the_remedy(written: object) -> None:
    with pytest.raises(InvalidJob, match=r"run_at 2026-03-01T12:30:00 has no time zone.*write 2026-03-01T12:30:00Z"):
        parse_time(written)  # type: ignore[arg-type]


def test_milliseconds_are_refused_and_not_taken_for_the_year_57000() -> None:
    for written in (1_772_368_215_250, "1772368215250", 1_772_368_215_250.0):
        with pytest.raises(InvalidJob, match=r"out of range.*milliseconds"):
            parse_time(written)


@pytest.mark.parametrize(
    "written",
    [-1, 10**400, float("nan"), float("inf"), True, None, "", "soon", "2026-03-01", "20260301", "2026-02-30T10:00:00Z",
     "2026-03-01T25:00:00Z", "12:30", "2026-W09-7", "1e9", "٣", date(2026, 3, 1), Decimal(5), [1], "0001-01-01T00:00:00+14:00"],
)  # fmt: skip
def test_what_is_no_time_is_refused_by_field(written: object) -> None:
    with pytest.raises(InvalidJob, match=r"run_at"):
        parse_time(written)  # type: ignore[arg-type]


def test_spans_are_seconds_or_timedeltas() -> None:
    assert parse_span(0, "delay") == 0
    assert parse_span(1.5, "delay") == 1.5
    assert parse_span(timedelta(minutes=2), "delay") == 120


@pytest.mark.parametrize(
    "written", [-0.001, float("nan"), float("inf"), 10**400, True, "ten", None, timedelta(days=-1), timedelta.max]
)
def test_a_span_out_of_range_is_refused_by_field(written: object) -> None:
    with pytest.raises(InvalidJob, match=r"delay"):
        parse_span(written, "delay")  # type: ignore[arg-type]
