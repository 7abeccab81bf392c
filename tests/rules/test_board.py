"""The board: places for processes, what they say there, and a bulletin; all of it seen across forks."""

import os
import signal
import uuid

import pytest

from pool.board.board import BULLETIN_BYTES, Board
from pool.board.lanes import NO_JOB, NO_ORDER, Phase
from pool.board.record import Exit, Record, Role, State
from pool.jobs.ids import new_job_id
from tests.helpers.stores import in_child
from tests.helpers.until import until


@pytest.fixture
def board() -> Board:
    return Board(lanes=3, records=4)


def _occupied(board: Board, slot: int = 0, generation: int = 1, pid: int = 100) -> Record:
    record = board.take_free()
    assert record is not None
    record.occupy(Role.WORKER, slot, generation, pid=0, group="default", now=5.0)
    record.occupy(Role.WORKER, slot, generation, pid=pid, group="default", now=5.0)
    return record


def test_a_fresh_board_has_nobody(board: Board) -> None:
    assert board.used == 0
    assert list(board.taken()) == []
    assert board.bulletin.read() == b""


def test_records_are_taken_given_back_and_taken_again(board: Board) -> None:
    records = [_occupied(board, slot) for slot in range(4)]
    assert [record.index for record in records] == [0, 1, 2, 3]
    assert board.take_free() is None
    records[2].vacate()
    assert [record.index for record in board.taken()] == [0, 1, 3]
    again = board.take_free()
    assert again is records[2]
    assert board.used == 4


def test_a_record_taken_but_not_yet_occupied_is_given_again(board: Board) -> None:
    first = board.take_free()
    assert first is not None
    assert board.take_free() is first


def test_a_new_tenant_finds_a_clean_record(board: Board) -> None:
    record = _occupied(board)
    record.process.write(State.BUSY, Exit.MEMORY, 1.0, 2.0, 3.0, 4, 5, 6, 7)
    record.note.write(1, 100, 9, 0, 0, 1, 0, 1.0, 2.0)
    record.done.write(1, 100)
    record.remark.write(b"boom")
    record.stack.write(b"Thread 1")
    record.orders.write(1)
    record.lanes[1].state.write(Phase.STARTED, 3, uuid.uuid4().bytes, 1.0, 2.0, 3, b"t", b"q")
    record.lanes[1].order.write(uuid.uuid4().bytes, 3, uuid.uuid4().bytes, 3)
    record.vacate()
    record.occupy(Role.KEEPER, 7, 2, pid=0, group="g", now=50.0)
    assert record.process.read() == (State.BOOTING, Exit.NONE, 50.0, 50.0, 0.0, 0, 0, 0, 0)
    assert record.note.read().pid == 0 and record.done.read() == (0, 0)
    assert (record.remark.read().text, record.stack.read().text, record.orders.read().draining) == ("", "", 0)
    assert all(cells.state.read().phase == Phase.NONE for cells in record.lanes)
    assert all(cells.order.read() == NO_ORDER for cells in record.lanes)
    tenant = record.tenant.read()
    assert (tenant.role, tenant.slot, tenant.generation, tenant.pid) == (Role.KEEPER, 7, 2, 0)


def test_the_pid_is_added_without_wiping_what_the_child_has_already_said(board: Board) -> None:
    """The child may be ready before the parent has written its pid."""
    record = board.take_free()
    assert record is not None
    record.occupy(Role.WORKER, 0, 1, pid=0, group="default", now=1.0)
    record.process.write(State.IDLE, Exit.NONE, 2.0, 2.0, 0.0, 0, 0, 0, 0)
    record.occupy(Role.WORKER, 0, 1, pid=4242, group="default", now=1.0)
    assert record.process.read().state == State.IDLE
    assert record.tenant.read().pid == 4242


def test_started_and_held_are_told_apart(board: Board) -> None:
    record, job_id = _occupied(board), new_job_id()
    raw = uuid.UUID(job_id).bytes
    record.lanes[0].state.write(Phase.CLAIMED, 5, raw, 1.0, 0.0, 9, b"mail.send", b"mail")
    record.lanes[1].state.write(Phase.STARTED, 6, raw, 1.0, 8.0, 9, b"mail.send", b"mail")
    record.lanes[2].state.write(Phase.NONE, 7, NO_JOB, 1.0, 0.0, 9, b"", b"")
    assert record.started_claims() == {1: 6}
    held = record.held_lanes()
    assert set(held) == {0, 1}
    assert (held[1].job_id, held[1].type, held[1].queue, held[1].hard_deadline) == (job_id, "mail.send", "mail", 8.0)


@pytest.mark.parametrize("length", [64, 65, 100])
def test_long_names_are_cut_and_harm_nothing(board: Board, length: int) -> None:
    record = _occupied(board)
    name = ("ä" * length).encode()[:64]
    record.lanes[0].state.write(Phase.CLAIMED, 1, NO_JOB, 0.0, 0.0, 1, name, b"q" * 40)
    lane = record.lanes[0].state.read()
    assert lane.type == "ä" * 32
    assert lane.queue == "q" * 40


def test_what_a_child_wrote_is_there_after_its_sigkill(board: Board) -> None:
    record = _occupied(board)
    out, into = os.pipe()
    pid = os.fork()
    if not pid:
        record.lanes[0].state.write(Phase.STARTED, 77, NO_JOB, 1.0, 0.0, 3, b"report", b"default")
        os.write(into, b"!")
        signal.pause()
    os.read(out, 1)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    os.close(out)
    os.close(into)
    assert record.started_claims() == {0: 77}


def test_a_single_number_is_set_in_the_value_that_stands_whichever_copy_that_is(board: Board) -> None:
    cell = _occupied(board).lanes[0].state
    set_phase = cell.setter(cell.read()._fields.index("phase"), "Q")
    for claim in range(3):
        cell.write(Phase.CLAIMED, claim, NO_JOB, 1.0, 2.0, 3, b"report", b"default")
        before, turn = cell.read(), cell.turn
        set_phase(Phase.FINISHED)
        assert cell.read() == before._replace(phase=Phase.FINISHED)
        assert cell.turn == turn


def test_a_number_that_is_set_all_the_time_is_read_as_it_was_or_is(board: Board) -> None:
    record = _occupied(board)
    set_alive_at = record.process.setter(record.process.read()._fields.index("alive_at"), "d")
    marks = (1.0, -1.1e300)  # that share no byte
    set_alive_at(marks[0])
    pid = os.fork()
    while not pid:
        set_alive_at(marks[1])
        set_alive_at(marks[0])
    try:
        before = record.process.read()
        seen = {record.process.read() for _ in range(20_000)}
        until(lambda: seen.add(record.process.read()) or len(seen) > 1, "a turn of the child")
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    assert seen == {before._replace(alive_at=mark) for mark in marks}


def test_news_are_told_once(board: Board) -> None:
    orders = _occupied(board).orders
    new_orders = orders.news()
    assert new_orders() == (0,)
    assert new_orders() is None
    orders.write(1)
    assert new_orders() == (1,)
    assert new_orders() is None


def test_the_board_is_one_for_parent_and_children(board: Board) -> None:
    """A record taken by the parent after the fork is seen by an older child."""
    record = _occupied(board)

    def look() -> tuple[int, int]:
        return board.used, board.record(record.index).tenant.read().pid

    assert in_child(look).result() == (1, 100)


def test_the_bulletin_is_read_whole_and_the_last_one_stays(board: Board) -> None:
    assert board.bulletin.post(b'{"queues": []}')
    assert board.bulletin.read() == b'{"queues": []}'
    assert board.bulletin.post(b"{}")
    assert board.bulletin.read() == b"{}"


def test_a_bulletin_too_long_is_refused_and_the_old_one_stays(board: Board) -> None:
    longest = b"x" * (BULLETIN_BYTES - 8)
    assert board.bulletin.post(longest)
    assert board.bulletin.post(longest + b"y") is False
    assert board.bulletin.read() == longest


def test_a_bulletin_posted_by_a_child_is_read_by_the_parent(board: Board) -> None:
    in_child(lambda: board.bulletin.post(b"from the keeper")).result()
    assert board.bulletin.read() == b"from the keeper"


def test_a_full_board_costs_memory_only_where_it_is_used() -> None:
    board = Board()
    record = board.take_free()
    assert record is not None and record.index == 0
    assert board.used == 1
