"""The last hour by the minute, as keepers hand it on. Made-up moments on a real board."""

import dataclasses
import itertools
import json

from pool.backends.contract import QueueState, Statistics
from pool.board.board import Board
from pool.board.tally import BOUNDS_S
from pool.keeper.history import History, waits_on

STORE = "sqlite:///jobs.db"


def numbers(completed: int) -> Statistics:
    fields = {field.name: 0 for field in dataclasses.fields(Statistics)}
    return Statistics(**{**fields, "completed": completed, "hours": (), "next_due": None, "backend": {}})  # type: ignore[arg-type]


def post(board: Board, history: History, store: str = STORE) -> None:
    board.bulletin.post(json.dumps({**history.document(), "backend": {"url": store}}).encode())


def noted(history: History) -> list[tuple[float, int]]:
    """When, and how many had been completed by then."""
    return [(row[0], row[1]) for row in history.document()["history"]]


def test_there_is_a_row_a_minute_for_an_hour() -> None:
    history = History(Board(records=1), STORE)
    for second in range(0, 2 * 3600, 2):
        history.note(1000.0 + second, numbers(second), [QueueState(name="a", pending=3, oldest_pending_s=2.0)])
    rows = noted(history)
    assert 60 <= len(rows) <= 61
    assert {after[0] - before[0] for before, after in itertools.pairwise(rows)} == {60.0}
    assert history.document()["history"][-1][3:] == (0, 3, 2.0)


def test_the_next_keeper_goes_on_where_the_one_before_stopped() -> None:
    board = Board(records=1)
    before = History(board, STORE)
    board.take_free().tally.add("mail", "completed", run_s=1.0, wait_s=0.3)  # type: ignore[union-attr]
    before.note(1000.0, numbers(5), [])
    before.note(1060.0, numbers(9), [])
    post(board, before)

    board.record(0).tally.add("mail", "completed", run_s=1.0, wait_s=7.0)
    after = History(board, STORE)
    after.note(1100.0, numbers(10), [])
    after.note(1130.0, numbers(12), [])

    assert noted(after) == [(1000.0, 5), (1060.0, 9), (1130.0, 12)]
    waits = after.document()["waits"]
    assert waits["since"] == 1000.0
    assert [b - a for a, b in zip(waits["before"], waits["after"], strict=True)] == [
        int(bound == 10.0) for bound in (*BOUNDS_S, 0.0)
    ]


def test_counts_of_another_store_are_not_taken_over() -> None:
    board = Board(records=1)
    before = History(board, STORE)
    before.note(1000.0, numbers(500), [])
    post(board, before, "redis://elsewhere/0")
    assert noted(History(board, STORE)) == []


def test_a_bulletin_of_another_version_is_no_obstacle() -> None:
    board = Board(records=1)
    for text in (b"", b"[]", b"{", b'{"backend": {"url": "sqlite:///jobs.db"}}', b'{"backend": 3}'):
        board.bulletin.post(text)
        history = History(board, STORE)
        history.note(1000.0, numbers(1), [])
        assert noted(history) == [(1000.0, 1)]


def test_waits_are_summed_over_types_and_places() -> None:
    board = Board(records=2)
    for _ in range(2):
        record = board.take_free()
        assert record is not None
        record.occupy(1, 1, 1, pid=1, group="g", now=0.0)  # type: ignore[arg-type]
        for name in ("mail", "pdf"):
            record.tally.add(name, "completed", run_s=0.1, wait_s=0.02)
    assert waits_on(board) == [4 * int(bound == 0.025) for bound in (*BOUNDS_S, 0.0)]
