"""A whole pool while its server fails in every way it can: nobody leaves, status knows, a result in hand is kept."""

import re
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing, suppress
from datetime import datetime
from typing import Any

import pytest

from tests.helpers.house import House
from tests.helpers.servers import DEFAULT_FLAVOUR, Server, running
from tests.helpers.until import until

OpenHouse = Callable[..., House]
WORKERS = 2
KNOWN_WITHIN_S = 5.0
MARGIN_S = 15.0  # of a loaded machine; it may last for ever where nobody looks


def store_is(house: House, ok: bool) -> float:
    """Seconds until status says so."""
    began = time.monotonic()
    until(lambda: house.status()["backend"]["ok"] is ok, f"backend ok={ok} in status")
    return time.monotonic() - began


def restart(server: Server, house: House) -> None:
    server.kill()
    assert store_is(house, False) < KNOWN_WITHIN_S + MARGIN_S
    server.start()


def freeze(server: Server, house: House) -> None:
    server.freeze()
    assert store_is(house, False) < KNOWN_WITHIN_S + MARGIN_S
    time.sleep(5 * house.patience)  # type: ignore[attr-defined]
    server.thaw()


def busy_script(server: Server, house: House) -> None:
    """A script of somebody else that never ends: the server answers BUSY until it is killed."""
    server.call("CONFIG", "SET", "busy-reply-threshold", 100)

    def spin() -> None:
        with suppress(Exception), closing(server.client(socket_timeout=60)) as client:
            client.eval("while true do end", 0)

    spinner = threading.Thread(target=spin)
    spinner.start()
    assert store_is(house, False) < KNOWN_WITHIN_S + MARGIN_S
    until(lambda: _killed_script(server), "the end of the script")
    spinner.join()


def _killed_script(server: Server) -> bool:
    with suppress(Exception):
        return bool(server.call("SCRIPT", "KILL"))
    return False


def turn_replica(server: Server, house: House) -> None:
    """READONLY for a while: it reads, so status may call it up, but nothing can be settled."""
    server.call("CONFIG", "SET", "replica-serve-stale-data", "yes")
    server.call("REPLICAOF", "127.0.0.1", "1")
    time.sleep(2.5 * house.patience)  # type: ignore[attr-defined]
    server.call("REPLICAOF", "NO", "ONE")


def flush_scripts(server: Server, house: House) -> None:
    server.call("SCRIPT", "FLUSH")


def kill_clients(server: Server, house: House) -> None:
    for _ in range(3):
        server.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        time.sleep(0.2)


def fill_memory(server: Server, house: House) -> None:
    """No room for anything new: what runs is settled all the same."""
    server.call("CONFIG", "SET", "maxmemory", "1")
    time.sleep(2)
    house.release("oom")
    house.wait_until(house.oom_job, "completed")  # type: ignore[attr-defined]
    server.call("CONFIG", "SET", "maxmemory", "0")


OUTAGES = (restart, freeze, busy_script, turn_replica, flush_scripts, kill_clients, fill_memory)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("patience", [1, pytest.param(4, marks=pytest.mark.full)])
def test_a_pool_lives_through_every_outage_of_its_server(open_house: OpenHouse, patience: int) -> None:
    """With patience 4: frozen for 20 s, a replica for 10 s."""
    with running(DEFAULT_FLAVOUR, aof=True) as server:
        house = open_house(workers=WORKERS, backend=server.url)
        house.patience = patience  # type: ignore[attr-defined]
        first = house.worker_pids()
        store_is(house, True)
        for number, outage in enumerate(OUTAGES):
            kept = house.enqueue("tasks.hold", {"gate": f"g{number}"})
            house.oom_job = house.enqueue("tasks.hold", {"gate": "oom"}) if outage is fill_memory else ""  # type: ignore[attr-defined]
            house.wait_for_worker_of(kept)
            releaser = threading.Timer(1.0, house.release, [f"g{number}"])  # ends while the server is away
            releaser.start()
            began = time.monotonic()
            outage(server, house)
            up = store_is(house, True)
            print(f"{outage.__name__}: {time.monotonic() - began:.1f} s, up again after {up:.1f} s")
            assert up < KNOWN_WITHIN_S + MARGIN_S
            assert house.wait_until(kept, "completed").retry_count == 0
            assert len(house.runs(kept)) == 1
            releaser.join()
        assert house.worker_pids() == first, "a worker has left"
        assert all(worker["restarts"] == 0 for worker in house.status()["workers"])
        assert_few_lines(house)


LINE = re.compile(r"^(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)\.\d+ +\w+ +(\S+?):")


def assert_few_lines(house: House) -> None:
    """About the store at most a line a second from each process."""
    lines = [match for line in house.log_text().splitlines() if "not available" in line and (match := LINE.match(line))]
    assert lines, "the outages left no trace in the log"
    per_second = Counter(lines_key(match) for match in lines)
    worst = per_second.most_common(1)[0]
    assert worst[1] <= 2, f"{worst}: a second of the clock may hold the end of one and the start of the next"
    per_process = Counter(match[2] for match in lines)
    seconds = {name: {match[1] for match in lines if match[2] == name} for name in per_process}
    for name, count in per_process.items():
        span = [datetime.fromisoformat(text) for text in sorted(seconds[name])]
        assert count <= (span[-1] - span[0]).total_seconds() + 2 * len(OUTAGES), f"{name} wrote {count} lines"


def lines_key(match: re.Match[str]) -> tuple[str, str]:
    return match[1], match[2]


# ---------------------------------------------------------------- wrong from the start

WRONG: dict[str, Callable[[Server], str]] = {
    "password": lambda server: f"redis://:wrong@127.0.0.1:{server.port}/0",
    "database": lambda server: f"redis://:right@127.0.0.1:{server.port}/99",
    "host": lambda server: f"redis://no-such-host.invalid:{server.port}/0",
}


@pytest.mark.parametrize("what", WRONG)
def test_a_pool_with_a_wrong_address_waits_and_says_why(open_house: OpenHouse, what: str) -> None:
    with running(DEFAULT_FLAVOUR, password="right") as server:
        house = open_house(workers=WORKERS, backend=WRONG[what](server), start=False)
        house.start(wait=False)
        told: Any = until(lambda: _trouble(house), "a reason in status")
        pids = house.worker_pids()
        time.sleep(3)
        assert house.worker_pids() == pids
        assert sum(worker["restarts"] for worker in house.status()["workers"]) == 0
        assert {"password": "password", "database": "index", "host": "resolve"}[what] in told.lower()
        assert "wrong@" not in house.log_text()
        assert_few_lines(house)


def _trouble(house: House) -> str | None:
    with suppress(Exception):
        status = house.status()
        if len([worker for worker in status["workers"] if worker["pid"] and worker["state"] == "idle"]) == WORKERS:
            return status["backend"]["error"] if status["backend"]["checked_at"] else None
    return None
