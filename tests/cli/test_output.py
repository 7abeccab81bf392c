"""How things are printed: nothing from the store may move the reader's cursor, and a pipe gets plain columns."""

import pytest

from pool.cli.output import duration, one_line, printable, say_facts, say_json, say_table, size


def test_control_characters_are_shown_not_sent() -> None:
    assert printable("a\x1b[2Jb\x07\r\n\tc\x9b") == "a\\x1b[2Jb\\x07\\r\n\tc\\x9b"
    assert printable("Grüße, 世界") == "Grüße, 世界"


def test_a_table_in_a_pipe_is_aligned_columns_without_cuts(capsys: pytest.CaptureFixture[str]) -> None:
    say_table(("id", "count"), [("a" * 40, 1200), ("b", None)])
    assert capsys.readouterr().out.splitlines() == ["ID".ljust(40) + "  COUNT", "a" * 40 + "  1,200", "b"]


def test_an_empty_table_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    say_table(("id",), [], empty="no jobs")
    assert capsys.readouterr().out == "no jobs\n"


def test_facts_leave_out_what_is_not_known(capsys: pytest.CaptureFixture[str]) -> None:
    say_facts([("id", 1), ("error", None), ("worker", "w")])
    assert capsys.readouterr().out.splitlines() == ["id      1", "worker  w"]


def test_json_is_readable_text(capsys: pytest.CaptureFixture[str]) -> None:
    say_json({"name": "Grüße"})
    assert capsys.readouterr().out == '{\n  "name": "Grüße"\n}\n'


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, ""),
        (0.04, "0.0 s"),
        (9.94, "9.9 s"),
        (12.4, "12 s"),
        (185, "3 m 5 s"),
        (7800, "2 h 10 m"),
        (270_000, "3 d 3 h"),
    ],
)
def test_a_duration_is_for_people(seconds: float | None, text: str) -> None:
    assert duration(seconds).startswith(text)


def test_sizes_and_lines() -> None:
    assert (size(None), size(900), size(48_200_000), size(1_500)) == ("", "900 B", "48 MB", "1.5 kB")
    assert one_line("first\nsecond") == "first"
    assert one_line("x" * 100, 10) == "x" * 9 + "…"
