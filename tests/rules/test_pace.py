"""How many jobs are claimed ahead: none of those that may be long, more and more of those that are short."""

import pytest

from pool.worker.pace import BUSY_AFTER_CALLS, FIRST_AHEAD, GROWTH, KNOWN_AFTER, Pace

CALL_S = 0.0002
SHORT, LONG = 0.00002, 0.05
MANY = 31


def warm(pace: Pace, job_type: str = "short", run_s: float = SHORT, jobs: int = KNOWN_AFTER) -> Pace:
    """So many jobs, one a call."""
    for _ in range(jobs):
        pace.called(CALL_S, [job_type], 0)
        pace.ran(job_type, run_s)
    return pace


def grow(pace: Pace, job_type: str = "short", calls: int = 10) -> int:
    """Calls that give all that was asked for, and the jobs of each."""
    for _ in range(calls):
        handed = [job_type] * (pace.ahead + 1)
        pace.called(CALL_S, handed, pace.ahead)
        for one in handed:
            pace.ran(one, SHORT)
    return pace.ahead


def test_it_grows_while_calls_give_all_that_was_asked_for() -> None:
    pace = warm(Pace(MANY), jobs=KNOWN_AFTER + 1)
    seen = [grow(pace, calls=1) for _ in range(6)]
    assert seen == sorted(seen)
    assert seen[-1] == MANY


def test_a_type_that_is_new_is_not_short() -> None:
    pace = warm(Pace(MANY), jobs=KNOWN_AFTER - 1)
    assert pace.ahead == 0
    assert not pace.is_short("short")


@pytest.mark.parametrize("run_s", [CALL_S * 2, LONG])
def test_jobs_that_take_longer_than_a_call_are_not_claimed_ahead(run_s: float) -> None:
    assert warm(Pace(MANY), run_s=run_s, jobs=200).ahead == 0


def test_together_they_take_a_few_milliseconds() -> None:
    pace = Pace(64)
    for _ in range(200):
        pace.called(0.01, ["slower"] * (pace.ahead + 1), pace.ahead)
        for _ in range(pace.ahead + 1):
            pace.ran("slower", 0.001)
    assert 1 <= pace.ahead <= 5


def test_a_short_line_makes_it_fall() -> None:
    pace = warm(Pace(MANY), jobs=KNOWN_AFTER + 1)
    assert grow(pace) == MANY
    pace.called(CALL_S, ["short"], MANY)
    assert pace.ahead == MANY // GROWTH


def test_a_call_that_asked_for_none_ahead_says_nothing_of_the_line() -> None:
    """Nobody watches, as in the first moments and on a crowded machine: it goes on where it was."""
    pace = warm(Pace(MANY), jobs=KNOWN_AFTER + 1)
    before = grow(pace, calls=1)
    assert 0 < before < MANY
    pace.called(CALL_S, ["short"], 0)
    assert pace.ahead == before
    assert grow(pace) == MANY


def test_after_a_rest_it_begins_with_one_and_goes_on_as_before() -> None:
    pace = warm(Pace(MANY), jobs=KNOWN_AFTER + 1)
    asked = grow(pace, calls=1)
    grow(pace, calls=1)  # so many came
    pace.rest()
    assert pace.ahead == 0
    assert FIRST_AHEAD < grow(pace, calls=1) == asked


def test_after_a_rest_it_asks_for_no_more_than_ever_came() -> None:
    pace = warm(Pace(MANY), jobs=KNOWN_AFTER + 1)
    asked = pace.ahead
    grow(pace, calls=1)
    assert asked < pace.ahead
    pace.called(CALL_S, ["short"], pace.ahead)  # of these only one came
    pace.rest()
    assert grow(pace, calls=1) == asked


def test_what_has_become_long_is_met_anew_after_a_rest() -> None:
    pace = warm(Pace(MANY), jobs=KNOWN_AFTER + 1)
    assert grow(pace) == MANY
    pace.ran("short", LONG)
    pace.ran("short", LONG)
    pace.rest()
    assert not pace.is_short("short")
    while not pace.is_short("short"):
        pace.ran("short", SHORT)
    assert 0 < grow(pace, calls=1) < MANY


def test_a_lone_short_job_now_and_then_wakes_nobody() -> None:
    pace = Pace(MANY)
    for _ in range(100):
        pace.called(CALL_S, ["short"], 0)
        pace.ran("short", SHORT)
        assert not pace.is_busy
        pace.called(CALL_S, [], 0)
        pace.rest()


def test_a_few_calls_that_brought_something_are_worth_a_keeper() -> None:
    pace = Pace(MANY)
    busy = []
    for _ in range(BUSY_AFTER_CALLS):
        busy.append(pace.is_busy)
        pace.called(CALL_S, ["short"], 0)
    assert not any(busy)
    assert pace.is_busy


def test_a_keeper_may_be_as_late_as_calls_are_slow() -> None:
    pace = warm(Pace(MANY))
    assert pace.is_watched(0.04)
    assert not pace.is_watched(0.06)
    for _ in range(100):
        pace.called(0.1, ["short"], 0)
    assert pace.is_watched(0.3)
    assert not pace.is_watched(0.5)
    pace.called(60.0, ["short"], 0)  # the store was away
    assert not pace.is_watched(1.1)


def test_an_outlier_is_forgiven_and_two_are_not() -> None:
    pace = warm(Pace(MANY), jobs=100)
    pace.ran("short", LONG)
    assert pace.is_short("short")
    pace.ran("short", LONG)
    assert not pace.is_short("short")


def test_one_long_type_in_the_answer_stops_it() -> None:
    pace = warm(Pace(MANY), jobs=100)
    assert grow(pace) == MANY
    pace.called(CALL_S, ["short"] * MANY + ["stranger"], MANY)
    assert pace.ahead == 0
