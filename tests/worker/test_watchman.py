"""When a worker may rely on the keeper to look for lost rings, and when it looks itself."""

import pytest

from pool.board.board import Board
from pool.board.record import Exit, Record, Role, State
from pool.clock import monotonic_now
from pool.worker.watchman import AWAKE_WITHIN_S, Watchman


@pytest.fixture
def board() -> Board:
    return Board(lanes=1)


def seated(board: Board, role: Role, slot: int) -> Record:
    record = board.take_free()
    assert record is not None
    record.occupy(role, slot, 1, pid=4242, group="house", now=monotonic_now())
    return record


def show(record: Record, state: State = State.IDLE, exit: Exit = Exit.NONE, *, ago_s: float = 0.0) -> None:
    at = monotonic_now() - ago_s
    record.process.write(state, exit, at, at, 0.0, 0, 0, 0, 0)


def test_nobody_watches_where_there_is_no_keeper(board: Board) -> None:
    show(seated(board, Role.WORKER, 1))
    assert not Watchman(board).is_awake()


@pytest.mark.parametrize("state", [State.IDLE, State.BUSY])
def test_a_keeper_that_shows_life_watches(board: Board, state: State) -> None:
    seated(board, Role.WORKER, 1)
    show(seated(board, Role.KEEPER, 9001), state)
    assert Watchman(board).is_awake()


@pytest.mark.parametrize("state", [State.BOOTING, State.RETIRING])
def test_a_keeper_that_boots_or_leaves_does_not(board: Board, state: State) -> None:
    show(seated(board, Role.KEEPER, 9001), state)
    assert not Watchman(board).is_awake()


def test_a_keeper_that_has_fallen_silent_is_relied_on_no_longer(board: Board) -> None:
    keeper, watchman = seated(board, Role.KEEPER, 9001), Watchman(board)
    show(keeper)
    assert watchman.is_awake()
    show(keeper, ago_s=AWAKE_WITHIN_S + 1)
    assert not watchman.is_awake()
    show(keeper)
    assert watchman.is_awake()


def test_a_successor_is_found_and_a_record_that_changed_hands_is_not_taken_for_it(board: Board) -> None:
    first, watchman = seated(board, Role.KEEPER, 9001), Watchman(board)
    show(first)
    assert watchman.is_awake()
    first.vacate()
    first.occupy(Role.WORKER, 3, 1, pid=4243, group="house", now=monotonic_now())
    show(first)
    assert not watchman.is_awake()
    show(seated(board, Role.KEEPER, 9001))
    assert watchman.is_awake()
