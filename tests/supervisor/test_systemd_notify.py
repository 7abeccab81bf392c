"""What systemd hears from the parent, on a notify socket of the test's own."""

import os
import selectors
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from pool.clock import monotonic_now, wall_now
from pool.supervisor.control import LastReload
from pool.supervisor.systemd import LONGEST_UNSENT, Notifier, Systemd, watchdog_seconds
from tests.helpers.pools import StillPool, workers


class Ear:
    """The receiving end, as systemd has it."""

    def __init__(self, address: str) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind("\0" + address[1:] if address.startswith("@") else address)
        self.socket.setblocking(False)

    def heard(self) -> list[dict[str, str]]:
        messages = []
        while True:
            try:
                message = self.socket.recv(65536).decode()
            except BlockingIOError:
                return messages
            messages.append(dict(line.split("=", 1) for line in message.split("\n")))


@pytest.fixture(params=["path", "abstract"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(tmp_path / "notify") if request.param == "path" else f"@jobpool-test-{os.getpid()}"


@pytest.fixture
def ear(address: str) -> Iterator[Ear]:
    ear = Ear(address)
    yield ear
    ear.socket.close()


@pytest.fixture
def pool() -> StillPool:
    pool = StillPool(workers(2))
    pool.all_born()
    return pool


def told(pool: StillPool, address: str, **environ: str) -> Systemd:
    systemd = Systemd({"NOTIFY_SOCKET": address, **environ})
    systemd.open(pool, selectors.DefaultSelector())
    return systemd


def test_ready_is_said_once_when_the_start_is_over(pool: StillPool, address: str, ear: Ear) -> None:
    systemd = told(pool, address)
    systemd.state_changed("starting")
    assert ear.heard() == []
    systemd.state_changed("ready")
    assert ear.heard() == [{"READY": "1", "STATUS": "ready: 2 workers, 0 busy", "MAINPID": str(os.getpid())}]
    systemd.state_changed("degraded")
    systemd.state_changed("ready")
    assert ear.heard() == []
    systemd.close()


def test_a_pool_that_starts_degraded_is_up_too(pool: StillPool, address: str, ear: Ear) -> None:
    systemd = told(pool, address)
    systemd.state_changed("degraded")
    assert ear.heard()[0]["READY"] == "1"
    systemd.close()


def test_each_reload_a_failed_one_too_ends_in_ready_and_says_why(pool: StillPool, address: str, ear: Ear) -> None:
    systemd = told(pool, address)
    systemd.state_changed("ready")
    ear.heard()
    before = int(monotonic_now() * 1_000_000)
    systemd.state_changed("reloading")
    (reloading,) = ear.heard()
    assert reloading["RELOADING"] == "1"
    assert before <= int(reloading["MONOTONIC_USEC"]) <= int(monotonic_now() * 1_000_000)
    pool.last_reload = LastReload(wall_now(), False, "unknown key [workers] cuont")
    systemd.state_changed("ready")
    (ready,) = ear.heard()
    assert ready["READY"] == "1" and "reload failed" in ready["STATUS"] and "cuont" in ready["STATUS"]
    systemd.close()


def test_the_watchdog_hears_of_each_half_of_its_patience_also_while_stopping(
    pool: StillPool, address: str, ear: Ear
) -> None:
    systemd = told(pool, address, WATCHDOG_USEC="2000000")
    for now in (0.0, 0.5, 1.0, 1.5, 2.0):
        systemd.turn(now)
    assert sum("WATCHDOG" in message for message in ear.heard()) == 3
    assert systemd.next_deadline() == 3.0
    systemd.state_changed("stopping")
    systemd.turn(3.0)
    heard = ear.heard()
    assert any("STOPPING" in message for message in heard) and any("WATCHDOG" in message for message in heard)
    systemd.close()


def test_the_status_is_told_when_it_changes_and_at_most_once_a_second(pool: StillPool, address: str, ear: Ear) -> None:
    systemd = told(pool, address)
    systemd.turn(0.0)
    assert [message["STATUS"] for message in ear.heard()] == ["ready: 2 workers, 0 busy"]
    systemd.turn(5.0)
    assert ear.heard() == []
    pool.holds(next(iter(pool.children.living())))
    systemd.turn(5.5)
    assert ear.heard() == []
    systemd.turn(6.0)
    assert [message["STATUS"] for message in ear.heard()] == ["ready: 2 workers, 1 busy"]
    systemd.close()


def test_a_full_socket_neither_blocks_nor_loses_the_last_word(pool: StillPool, address: str, ear: Ear) -> None:
    notifier = Notifier(address)
    for number in range(2000):
        notifier.tell(f"STATUS={number}")
    first = ear.heard()
    assert first[0]["STATUS"] == "0" and len(first) < 2000
    rest = []
    for _ in range(LONGEST_UNSENT):
        notifier.send_unsent()
        rest += ear.heard()
    assert rest[-1]["STATUS"] == "1999" and len(rest) <= LONGEST_UNSENT
    notifier.close()


def test_nothing_is_said_outside_systemd(pool: StillPool) -> None:
    systemd = Systemd({})
    systemd.open(pool, selectors.DefaultSelector())
    for state in ("ready", "reloading", "ready", "stopping"):
        systemd.state_changed(state)
    systemd.turn(0.0)
    assert systemd.next_deadline() is None
    systemd.close()


def test_a_notify_socket_that_is_gone_harms_nothing(pool: StillPool, tmp_path: Path) -> None:
    systemd = told(pool, str(tmp_path / "gone"), WATCHDOG_USEC="1000000")
    systemd.state_changed("ready")
    systemd.turn(0.0)
    systemd.close()


@pytest.mark.parametrize(
    ("usec", "pid", "seconds"),
    [
        ("30000000", "", 30.0),
        ("30000000", str(os.getpid()), 30.0),
        ("30000000", "1", 0.0),
        ("", "", 0.0),
        ("x", "", 0.0),
    ],
    ids=["for all", "for us", "for another", "not set", "not a number"],
)
def test_the_watchdog_counts_only_when_it_is_meant_for_this_process(usec: str, pid: str, seconds: float) -> None:
    assert watchdog_seconds(usec, pid) == seconds
