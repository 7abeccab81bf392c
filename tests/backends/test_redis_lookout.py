"""A connection looks out for its answer awake for a moment, and does not where that is of no use."""

import socket
import struct
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pool.backends.redis import lookout as module
from pool.backends.redis.lookout import FEWEST_ASLEEP, MOST_ASLEEP, Lookout

AWAKE, ASLEEP = "awake", "asleep"
ANSWER = b"+OK\r\n"


class Watched(socket.socket):
    """Remembers how it was asked."""

    asked: list[str]

    def recv_into(self, *args: Any) -> int:
        self.asked.append(AWAKE if socket.MSG_DONTWAIT in args[2:] else ASLEEP)
        return super().recv_into(*args)


class Line:
    """A lookout on one end of a connection, and the other end."""

    def __init__(self, sock: Watched, other: socket.socket) -> None:
        self._sock, self.other, self.lookout = sock, other, Lookout(sock)

    def answered(self) -> list[str]:
        """How it takes an answer that is there."""
        self._sock.asked.clear()
        self.other.send(ANSWER)
        into = bytearray(8)
        assert self.lookout.receive(into) == len(ANSWER)
        assert bytes(into[: len(ANSWER)]) == ANSWER
        return self._sock.asked

    def unanswered(self) -> list[str]:
        """How it waits for one that never comes: each way once."""
        self._sock.asked.clear()
        with pytest.raises(BlockingIOError):
            self.lookout.receive(bytearray(8))
        return sorted(set(self._sock.asked))


@pytest.fixture
def line() -> Iterator[Line]:
    mine, other = socket.socketpair()
    sock = Watched(fileno=mine.detach())
    sock.asked = []
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", 0, 1000))
    with sock, other:
        yield Line(sock, other)


@pytest.fixture
def brisk(line: Line, monkeypatch: pytest.MonkeyPatch) -> Line:
    """One call follows another, however slow this machine is."""
    monkeypatch.setattr(module, "BRISK_NS", 10**18)
    line.answered()
    return line


def test_an_answer_that_is_there_is_taken_without_a_sleep(brisk: Line) -> None:
    assert brisk.answered() == [AWAKE]


def test_who_watched_in_vain_sleeps_more_calls_each_time_until_an_answer_is_met_awake(brisk: Line) -> None:
    def sleeps(times: int, wait: Callable[[], list[str]]) -> bool:
        return [wait() for _ in range(times)] == [[ASLEEP]] * times

    asleep = FEWEST_ASLEEP
    while asleep < MOST_ASLEEP:
        assert brisk.unanswered() == [ASLEEP, AWAKE]
        assert sleeps(asleep, brisk.unanswered)
        asleep *= 2
    for _ in range(2):
        assert brisk.unanswered() == [ASLEEP, AWAKE]
        assert sleeps(MOST_ASLEEP, brisk.answered)

    assert brisk.answered() == [AWAKE]
    assert brisk.unanswered() == [ASLEEP, AWAKE]
    assert sleeps(FEWEST_ASLEEP, brisk.answered)
    assert brisk.answered() == [AWAKE]


def test_who_calls_now_and_then_sleeps_and_so_do_the_few_calls_of_one_wake(
    line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BRISK_NS", -1)
    assert [line.answered() for _ in range(9)] == [[ASLEEP]] * 9
    monkeypatch.setattr(module, "BRISK_NS", 10**18)
    assert [line.answered() for _ in range(FEWEST_ASLEEP)] == [[ASLEEP]] * FEWEST_ASLEEP
    assert line.answered() == [AWAKE]


def test_the_end_of_a_connection_is_told(brisk: Line) -> None:
    brisk.other.close()
    assert brisk.lookout.receive(bytearray(8)) == 0
