"""What a job prints: how much is kept, how much is logged."""

from typing import Any

import pytest

from pool.jobs.job import KEPT_OUTPUT_BYTES
from pool.worker import output
from pool.worker.commands import filled_in
from pool.worker.output import MAX_LOGGED_BYTES, Tail, Transcript
from tests.rules.test_runner_endings import claim


class Lines:
    """Stands where the log is, and counts."""

    def __init__(self) -> None:
        self.events: list[str] = []

    def info(self, event: str, **fields: Any) -> None:
        self.events.append(event)

    warning = info


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> Lines:
    found = Lines()
    monkeypatch.setattr(output, "log", found)
    return found


def test_the_end_of_a_long_text_is_kept() -> None:
    tail = Tail()
    for number in range(100_000):
        tail.add(f"{number}\n")
    assert tail.text().endswith("99998\n99999\n")
    assert len(tail.text().encode()) <= KEPT_OUTPUT_BYTES


def test_a_cut_never_leaves_half_a_character() -> None:
    tail = Tail()
    tail.add("€" * KEPT_OUTPUT_BYTES)
    assert set(tail.text()) == {"€"}


def test_what_no_store_takes_is_written_out() -> None:
    tail = Tail()
    tail.add("a\0b\ud800c password=hunter2")
    assert tail.text() == "a\\x00b\\ud800c password=***"


def test_lines_go_to_the_log_one_by_one_and_the_last_one_at_the_end(lines: Lines) -> None:
    transcript = Transcript(claim())
    for part in ("one\ntw", "o\nthree"):
        transcript.write("stdout", part)
    assert lines.events == ["one", "two"]
    assert transcript.close() == "one\ntwo\nthree"
    assert lines.events == ["one", "two", "three"]


def test_streams_do_not_cut_each_others_lines(lines: Lines) -> None:
    transcript = Transcript(claim())
    transcript.write("stdout", "out")
    transcript.write("stderr", "err\n")
    transcript.write("stdout", "put\n")
    assert lines.events == ["err", "output"]


@pytest.mark.parametrize("piece", ["x" * 100 + "\n", "y" * 5_000_000])
def test_a_flood_does_not_fill_the_log(lines: Lines, piece: str) -> None:
    transcript = Transcript(claim())
    for _ in range(50_000_000 // len(piece)):
        transcript.write("stdout", piece)
    transcript.close()
    assert sum(map(len, lines.events)) <= MAX_LOGGED_BYTES + 50_000
    assert sum("prints too much" in event for event in lines.events) == 1


@pytest.mark.parametrize(
    ("template", "filled"),
    [
        ("{name}", "a b"),
        ("--n={n}", "--n=5"),
        ("{flag}{items}", "true[1, 2]"),
        ("{} {0} {name", "{} {0} {name"),
        ("{name}{name}", "a ba b"),
        ("{nested}", "{name}"),
    ],
)
def test_arguments_of_commands_are_filled_in_once(template: str, filled: str) -> None:
    payload = {"name": "a b", "n": 5, "flag": True, "items": [1, 2], "nested": "{name}"}
    assert filled_in(template, payload) == filled
