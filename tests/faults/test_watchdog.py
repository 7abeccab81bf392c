"""The watchdog of systemd hears from the loop itself: a loop that is stuck says nothing, though its process lives."""

import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import pytest

from tests.faults.conftest import OpenHouse
from tests.faults.tracing import require_strace
from tests.helpers.servers import Server
from tests.helpers.until import until

STALL_S = 6
PATIENCE_US = "2000000"


class Ear:
    """Notes when each WATCHDOG=1 came."""

    def __init__(self, path: Path) -> None:
        self.path, self.heard_at = path, list[float]()
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(path))
        self._socket.settimeout(0.2)
        self._is_over = False
        self._thread = threading.Thread(target=self._listen)
        self._thread.start()

    def _listen(self) -> None:
        while not self._is_over:
            try:
                message = self._socket.recv(65536)
            except TimeoutError:
                continue
            if b"WATCHDOG=1" in message:
                self.heard_at.append(time.monotonic())

    def count_since(self, moment: float) -> int:
        return sum(at >= moment for at in self.heard_at)

    def longest_gap(self, since: float, until: float) -> float:
        moments = [since, *(at for at in self.heard_at if since <= at <= until), until]
        return max(later - sooner for sooner, later in pairwise(moments))

    def close(self) -> None:
        self._is_over = True
        self._thread.join()
        self._socket.close()


@pytest.fixture
def ear(tmp_path: Path) -> Iterator[Ear]:
    with closing(Ear(tmp_path / "notify")) as ear:
        yield ear


def systemd(ear: Ear) -> dict[str, str]:
    return {"NOTIFY_SOCKET": str(ear.path), "WATCHDOG_USEC": PATIENCE_US}


@pytest.mark.serial
def test_a_loop_that_is_stuck_lets_the_watchdog_wait_and_goes_on_afterwards(open_house: OpenHouse, ear: Ear) -> None:
    require_strace()
    house = open_house(workers=1, environ=systemd(ear))
    started = time.monotonic()
    until(lambda: ear.count_since(started) >= 2, "signs of life")
    stall = f"inject=epoll_wait,epoll_pwait,poll,ppoll:delay_enter={STALL_S}s:when=1"
    calls = "trace=epoll_wait,epoll_pwait,poll,ppoll"
    words = ["strace", "-e", calls, "-e", stall, "-o", "/dev/null", "-p", str(house.pid)]
    tracer = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
    assert tracer.stderr is not None
    with tracer.stderr:
        while "attached" not in tracer.stderr.readline():
            assert tracer.poll() is None
    stuck_at = time.monotonic()

    until(lambda: time.monotonic() > stuck_at + STALL_S + 1, "the end of the stall", within=60)
    until(lambda: ear.count_since(stuck_at + STALL_S) >= 2, "signs of life again")
    tracer.send_signal(signal.SIGINT)
    tracer.wait(30)

    assert ear.longest_gap(stuck_at, stuck_at + STALL_S + 1) >= STALL_S - 2
    assert house.status()["workers"][0]["restarts"] == 0
    house.wait_until(house.enqueue("tasks.quick"), "completed")


@pytest.mark.serial
def test_a_store_that_is_away_and_a_caller_who_is_slow_do_not_keep_the_watchdog_waiting(
    open_house: OpenHouse, server: Server, ear: Ear
) -> None:
    house = open_house(workers=2, backend=server.url, environ=systemd(ear))
    callers = [socket.socket(socket.AF_UNIX) for _ in range(5)]
    for caller in callers:
        caller.connect(str(house.socket))
        caller.sendall(b"GET /status HTT")
    server.freeze()
    since = time.monotonic()
    until(lambda: time.monotonic() > since + 5, "five seconds of a frozen store")
    server.thaw()
    for caller in callers:
        caller.close()
    assert ear.longest_gap(since, since + 5) < 4.0  # one that waits for either is silent for all five
    assert os.path.exists(f"/proc/{house.pid}")
