"""Who lives, in the keeper's eyes, also where descriptors have high numbers or are used up."""

import os
import resource
import signal
import subprocess
from collections.abc import Iterator

import pytest

from pool.board.board import Board
from pool.board.record import Record, Role
from pool.clock import monotonic_now
from pool.identity import new_pool_id
from pool.keeper.crew import Crew
from tests.helpers.until import until


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(["sleep", "60"])
    yield process
    process.kill()
    process.wait()


@pytest.fixture
def descriptors() -> Iterator[list[int]]:
    """Descriptors held by the test; given back, with the limit, at its end."""
    held: list[int] = []
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield held
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    for fd in held:
        os.close(fd)


def on_the_board(process: subprocess.Popen[bytes]) -> tuple[Crew, Record]:
    board = Board(lanes=1)
    record = board.take_free()
    assert record is not None
    record.occupy(Role.WORKER, 1, 1, pid=process.pid, group="workers", now=monotonic_now())
    return Crew(board, new_pool_id("crew")), record


def open_now() -> int:
    """How many descriptors this process has, whatever other tests left open."""
    return len(os.listdir("/proc/self/fd"))


def take_all(held: list[int], limit: int) -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    try:
        while True:
            held.append(os.open("/dev/null", os.O_RDONLY))
    except OSError:
        return


def test_a_process_whose_descriptor_is_above_1023_is_judged_right(
    sleeper: subprocess.Popen[bytes], descriptors: list[int]
) -> None:
    crew, record = on_the_board(sleeper)
    take_all(descriptors, 1100 + open_now())
    os.close(descriptors.pop())

    assert crew.is_alive(record)
    os.kill(sleeper.pid, signal.SIGKILL)

    until(lambda: not crew.is_alive(record), "seen as dead, though not reaped")


def test_a_process_for_which_no_descriptor_is_left_is_not_taken_for_dead(
    sleeper: subprocess.Popen[bytes], descriptors: list[int]
) -> None:
    crew, record = on_the_board(sleeper)
    take_all(descriptors, 300 + open_now())
    before = crew.is_alive(record)
    for _ in range(2):
        os.close(descriptors.pop())

    assert before
    assert crew.is_alive(record)
    os.kill(sleeper.pid, signal.SIGKILL)
    until(lambda: not crew.is_alive(record), "seen as dead, though not reaped")


def test_one_that_is_gone_altogether_is_dead(sleeper: subprocess.Popen[bytes]) -> None:
    crew, record = on_the_board(sleeper)
    os.kill(sleeper.pid, signal.SIGKILL)
    sleeper.wait()

    assert not crew.is_alive(record)
