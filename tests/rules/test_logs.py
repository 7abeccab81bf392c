"""How a line looks, and what is held back."""

import json
from datetime import UTC, datetime

import pytest

from pool.logs.limiter import Limiter
from pool.logs.lines import Entry, Shape, line_of

AT = datetime(2026, 5, 4, 12, 3, 4, 56_000, tzinfo=UTC)
TEXT = Shape("text", "p", "worker 3")
JSON = Shape("json", "p", "worker 3")


def text_of(
    event: str = "job failed", shape: Shape = TEXT, level: str = "INFO", trace: str = "", **fields: object
) -> str:
    return line_of(Entry(AT, level, event, fields, trace), shape).decode()


def test_a_text_line_is_time_level_who_event_and_fields() -> None:
    line = text_of(slot=3, type="mail.send", seconds=0.25, error="it broke", nothing=None)
    assert (
        line
        == '2026-05-04 12:03:04.056 INFO    worker 3: job failed slot=3 type=mail.send seconds=0.25 error="it broke"\n'
    )


def test_a_json_line_is_one_object() -> None:
    document = json.loads(text_of(shape=JSON, slot=3, queues=["a", "b"], trace="x\ny"))
    assert document == {
        "time": "2026-05-04T12:03:04.056Z",
        "level": "info",
        "pool": "p",
        "who": "worker 3",
        "event": "job failed",
        "slot": 3,
        "queues": ["a", "b"],
        "trace": "x\ny",
    }


def test_a_field_cannot_pose_as_one_of_ours() -> None:
    document = json.loads(text_of(shape=JSON, who="evil", level_="x"))
    assert document["who"] == "worker 3" and document["who_"] == "evil"


@pytest.mark.parametrize("shape", [TEXT, JSON])
@pytest.mark.parametrize("evil", ["a\nb", "a\rb", "a\x1b[2Jb", "a\u2028b", "a\x00b", "\x9b31m"])
def test_a_value_can_neither_start_a_line_nor_steer_the_terminal(shape: Shape, evil: str) -> None:
    line = text_of(evil, shape, value=evil)
    assert line.count("\n") == 1
    if shape is TEXT:
        assert line[:-1].isprintable()


def test_a_trace_stands_indented_below_its_line() -> None:
    assert text_of(trace="Traceback\n  x\nValueError: \x1b").splitlines()[1:] == [
        "    | Traceback",
        "    |   x",
        "    | ValueError: \\x1b",
    ]


@pytest.mark.parametrize(("level", "number"), [("DEBUG", 7), ("INFO", 6), ("WARNING", 4), ("ERROR", 3)])
def test_under_journald_each_line_bears_its_priority(level: str, number: int) -> None:
    shape = Shape("text", "p", "parent", under_journald=True)
    lines = text_of(shape=shape, level=level, trace="a\nb").splitlines()
    assert len(lines) == 3
    assert all(line.startswith(f"<{number}>") for line in lines)
    assert "2026" not in lines[0]


@pytest.mark.parametrize("shape", [TEXT, JSON])
def test_no_secret_reaches_a_line(shape: Shape) -> None:
    line = text_of(
        "got redis://:pw1@h",
        shape,
        url="redis://u:pw2@h/0",
        error="password=pw3",
        trace="token: pw4",
        urls=["redis://:pw5@h"],
    )
    assert "pw" not in line


@pytest.mark.parametrize("shape", [TEXT, JSON])
def test_strange_values_are_written_all_the_same(shape: Shape) -> None:
    assert text_of("e", shape, a="\ud800", b=b"x", c=float("nan"), d={"k": 1}, e=object(), f=None)


def test_a_long_line_is_cut() -> None:
    assert len(text_of("x" * 1_000_000)) < 40_000
    assert len(text_of("x", JSON, a="y" * 1_000_000)) < 40_000


def test_repeated_trouble_is_told_once_a_second_with_the_number_kept_back() -> None:
    limiter = Limiter()
    assert [limiter.admit("k", 1.0, now) for now in (0.0, 0.1, 0.9, 1.0, 1.5, 2.1)] == [0, None, None, 2, None, 1]
    assert limiter.admit("other", 1.0, 0.1) == 0
