"""When schedule entries fire: cron in its zone over clock changes, fixed distances, missed ticks. docs/jobs.md has the table."""

from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pool.errors import InvalidJob
from pool.jobs.schedule import Timing, count_ticks, due, next_tick, timing_from

BERLIN, NEW_YORK = "Europe/Berlin", "America/New_York"
DOCS = Path(__file__).parents[2] / "docs" / "jobs.md"


def at(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def ticks(timing: Timing, after: str, until: str) -> list[str]:
    """In UTC, to the minute."""
    end = at(until)
    found = []
    for tick in islice(timing.after(at(after)), 2000):
        if tick > end:
            break
        found.append(datetime.fromtimestamp(tick, UTC).strftime("%H:%MZ"))
    return found


# zone, entry, its ticks on the day the clock goes forward, and on the day it goes back (UTC)
CLOCK_CHANGES = [
    (BERLIN, "30 1 * * *", ["00:30Z"], ["23:30Z"]),
    (BERLIN, "30 2 * * *", ["01:00Z"], ["00:30Z"]),
    (BERLIN, "0 3 * * *", ["01:00Z"], ["02:00Z"]),
    (BERLIN, "30 3 * * *", ["01:30Z"], ["02:30Z"]),
    (NEW_YORK, "30 1 * * *", ["06:30Z"], ["05:30Z"]),
    (NEW_YORK, "30 2 * * *", ["07:00Z"], ["07:30Z"]),
    (NEW_YORK, "0 3 * * *", ["07:00Z"], ["08:00Z"]),
]
DAYS = {
    BERLIN: (("2026-03-28T23:00Z", "2026-03-29T21:59Z"), ("2026-10-24T22:00Z", "2026-10-25T22:59Z")),
    NEW_YORK: (("2026-03-08T05:00Z", "2026-03-09T03:59Z"), ("2026-11-01T04:00Z", "2026-11-02T04:59Z")),
}


@pytest.mark.parametrize("zone, cron, forward, back", CLOCK_CHANGES)
def test_a_daily_entry_fires_once_on_both_clock_changes(
    zone: str, cron: str, forward: list[str], back: list[str]
) -> None:
    timing = timing_from(cron=cron, timezone=zone)

    assert ticks(timing, *DAYS[zone][0]) == forward
    assert ticks(timing, *DAYS[zone][1]) == back


@pytest.mark.parametrize("zone, cron, forward, back", CLOCK_CHANGES)
def test_the_table_of_the_documentation_is_this_one(zone: str, cron: str, forward: list[str], back: list[str]) -> None:
    assert f"| {zone} | `{cron}` | {', '.join(forward)} | {', '.join(back)} |" in DOCS.read_text()


@pytest.mark.parametrize("zone", [BERLIN, NEW_YORK])
def test_an_hourly_entry_goes_by_real_time(zone: str) -> None:
    forward, back = DAYS[zone]
    hourly = timing_from(cron="0 * * * *", timezone=zone)

    assert len(ticks(hourly, forward[0], forward[1])) == 22  # 23 hours, the first tick is before the window
    assert len(ticks(hourly, back[0], back[1])) == 24


def test_asked_in_the_repeated_hour_a_fixed_time_has_passed() -> None:
    timing = timing_from(cron="30 2 * * *", timezone=BERLIN)

    for moment in ("2026-10-25T00:30:00Z", "2026-10-25T01:10:00Z", "2026-10-25T01:45:00Z"):
        assert timing.latest(at(moment)) == at("2026-10-25T02:30:00+02:00")
        assert next_tick(timing, at(moment)) == at("2026-10-26T02:30:00+01:00")


def test_day_of_month_or_weekday() -> None:
    """Cron's oldest surprise: with both given, either is enough."""
    timing = timing_from(cron="0 0 13 * 5")
    days = [datetime.fromtimestamp(tick, UTC).day for tick in islice(timing.after(at("2026-03-01T00:00Z")), 5)]

    assert days == [6, 13, 20, 27, 3]


@pytest.mark.parametrize("cron", ["0 0 31 2 *", "0 0 30 2 *", "0 0 31 4,6,9,11 *"])
def test_a_date_that_never_comes_is_refused(cron: str) -> None:
    with pytest.raises(InvalidJob, match="never fires"):
        timing_from(cron=cron)


def test_a_leap_day_comes_every_four_years() -> None:
    assert next_tick(timing_from(cron="0 0 29 2 *"), at("2026-01-01T00:00Z")) == at("2028-02-29T00:00Z")


@pytest.mark.parametrize(
    "cron",
    [
        "* * * *",
        "* * * * * *",
        "61 * * * *",
        "* 24 * * *",
        "* * 0 * *",
        "0 0 31 13 *",
        "x * * * *",
        "* * * * 8",
        "@reboot",
        "*/0 * * * *",
        " ",
    ],
)
def test_an_expression_that_cannot_be_read_is_quoted(cron: str) -> None:
    with pytest.raises(InvalidJob, match="cron"):
        timing_from(cron=cron)


@pytest.mark.parametrize("zone", ["Mars/Olympus", "", "../etc/passwd", "CEST"])
def test_an_unknown_time_zone_is_named(zone: str) -> None:
    with pytest.raises(InvalidJob, match="time zone"):
        timing_from(cron="0 0 * * *", timezone=zone)


@pytest.mark.parametrize("declared", [{}, {"cron": "@daily", "every": 5.0}])
def test_cron_or_every_and_not_both(declared: dict[str, object]) -> None:
    with pytest.raises(InvalidJob, match="cron or every"):
        timing_from(**declared)  # type: ignore[arg-type]


def test_nicknames() -> None:
    assert ticks(timing_from(cron="@daily"), "2026-01-01T12:00Z", "2026-01-02T12:00Z") == ["00:00Z"]


def test_a_fixed_distance_has_the_same_ticks_everywhere() -> None:
    timing = timing_from(every=900)

    assert ticks(timing, "2026-01-01T00:07Z", "2026-01-01T01:00Z") == ["00:15Z", "00:30Z", "00:45Z", "01:00Z"]
    assert timing.latest(at("2026-01-01T00:15Z")) == at("2026-01-01T00:15Z")
    with pytest.raises(InvalidJob, match="too often"):
        timing_from(every=0.5)


# ---------------------------------------------------------------- what a keeper does about the ticks


EVERY_MINUTE = timing_from(cron="* * * * *")
DAILY = timing_from(cron="0 0 * * *")


def test_nothing_is_due_between_two_ticks() -> None:
    assert due(DAILY, last=at("2026-01-02T00:00Z"), now=at("2026-01-02T23:59:59Z")) is None


def test_a_tick_fires_when_it_has_come() -> None:
    firing = due(DAILY, last=at("2026-01-02T00:00Z"), now=at("2026-01-03T00:00:00Z"), catch_up="skip")

    assert firing is not None
    assert (firing.tick, firing.runs, firing.missed) == (at("2026-01-03T00:00Z"), True, 0)


def test_five_missed_ticks_are_one_run_or_none() -> None:
    last, now = at("2026-01-01T00:00Z"), at("2026-01-01T00:05:45Z")

    once = due(EVERY_MINUTE, last=last, now=now)
    assert once is not None
    assert (once.tick, once.runs, once.missed) == (at("2026-01-01T00:05Z"), True, 4)

    none = due(EVERY_MINUTE, last=last, now=now, catch_up="skip")
    assert none is not None
    assert (none.tick, none.runs, none.missed) == (at("2026-01-01T00:05Z"), False, 5)


def test_down_over_a_daily_tick_from_one_second_before_to_76_after() -> None:
    last, now = at("2026-01-01T00:00Z"), at("2026-01-02T00:01:16Z")

    for catch_up, runs in (("run_once", True), ("skip", False)):
        firing = due(DAILY, last=last, now=now, catch_up=catch_up)  # type: ignore[arg-type]
        assert firing is not None
        assert firing.runs is runs


def test_a_clock_that_was_set_back_fires_nothing_twice() -> None:
    assert due(DAILY, last=at("2026-01-02T00:00Z"), now=at("2026-01-01T12:00Z")) is None


def test_years_of_missed_ticks_cost_little_and_are_counted_to_a_thousand() -> None:
    assert count_ticks(EVERY_MINUTE, at("2020-01-01T00:00Z"), at("2026-01-01T00:00Z")) == 1000


fields = st.sampled_from(["*", "*/15", "0", "30", "5,35", "7-9"])
hours = st.sampled_from(["*", "*/2", "0", "2", "1-3", "23"])
zones = st.sampled_from([BERLIN, NEW_YORK, "UTC", "Australia/Lord_Howe", "Asia/Kolkata"])
moments = st.integers(int(at("2026-01-01T00:00Z")), int(at("2027-01-01T00:00Z")))


@settings(deadline=None)
@given(fields, hours, zones, moments)
def test_the_next_tick_is_later_and_there_is_none_between(minute: str, hour: str, zone: str, moment: int) -> None:
    timing = timing_from(cron=f"{minute} {hour} * * *", timezone=zone)
    tick = next_tick(timing, moment)

    assert tick is not None
    assert tick > moment
    assert timing.latest(tick) == tick
    before = timing.latest(tick - 1)
    assert before is not None
    assert before <= moment
    assert count_ticks(timing, moment, tick) == 1


@settings(deadline=None)
@given(fields, hours, zones, moments)
def test_without_a_clock_change_ticks_are_where_the_expression_says(
    minute: str, hour: str, zone: str, moment: int
) -> None:
    timing = timing_from(cron=f"{minute} {hour} * * *", timezone=zone)
    tick = next_tick(timing, moment)
    assert tick is not None
    local = datetime.fromtimestamp(tick, ZoneInfo(zone))
    day_before = datetime.fromtimestamp(tick - 86_400, ZoneInfo(zone))
    if local.utcoffset() == day_before.utcoffset():
        assert local.minute in _range(minute, 60)
        assert local.hour in _range(hour, 24)


def _range(field: str, size: int) -> set[int]:
    if field.startswith("*"):
        return set(range(0, size, int(field.partition("/")[2] or 1)))
    if "-" in field:
        low, high = map(int, field.split("-"))
        return set(range(low, high + 1))
    return {int(part) for part in field.split(",")}
