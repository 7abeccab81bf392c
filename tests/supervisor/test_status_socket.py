"""The status socket answers friends at once, whatever strangers do to it."""

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pool.cli.control import NoAnswer, NoSocket, Refused, ask
from pool.supervisor.status_socket import MOST_CLIENTS
from tests.helpers.desks import Desk, desk
from tests.helpers.until import until


@pytest.fixture
def open_desk(tmp_path: Path) -> Iterator[Desk]:
    with desk(tmp_path, listen="127.0.0.1:0") as running:
        yield running


def connected(running: Desk) -> socket.socket:
    client = socket.socket(socket.AF_UNIX)
    client.settimeout(30)
    client.connect(str(running.path))
    return client


def exchange(running: Desk, request: bytes) -> bytes:
    with connected(running) as client:
        client.sendall(request)
        return everything(client)


def everything(client: socket.socket) -> bytes:
    parts = []
    while part := client.recv(65536):
        parts.append(part)
    return b"".join(parts)


def is_hung_up(client: socket.socket) -> bool:
    try:
        return client.recv(1) == b""
    except ConnectionResetError:
        return True


# ---------------------------------------------------------------- friends


def test_each_path_answers_in_its_form(open_desk: Desk) -> None:
    assert ask(open_desk.path, "GET", "/healthz") == (200, {"ok": True, "state": "ready"})
    assert ask(open_desk.path, "GET", "/readyz") == (200, {"ready": True, "state": "ready", "reasons": []})
    assert ask(open_desk.path, "GET", "/status?x=1") == (200, open_desk.answers.document)
    assert ask(open_desk.path, "GET", "/metrics") == (200, "jobpool_up 1\n")


def test_an_unready_pool_answers_503_with_its_reasons(open_desk: Desk) -> None:
    open_desk.answers.reasons = ["slot 2 is parked"]
    assert ask(open_desk.path, "GET", "/readyz") == (
        503,
        {"ready": False, "state": "ready", "reasons": ["slot 2 is parked"]},
    )


def test_a_command_reaches_the_supervisor_with_its_options(open_desk: Desk) -> None:
    status, document = ask(open_desk.path, "POST", "/scale", {"count": 4, "group": "bulk"})
    assert (status, document) == (200, {"verb": "scale", "options": {"count": 4, "group": "bulk"}})


def test_a_command_without_a_body_has_no_options(open_desk: Desk) -> None:
    assert ask(open_desk.path, "POST", "/drain")[1]["options"] == {}


def test_a_command_may_take_its_time_and_others_are_answered_meanwhile(open_desk: Desk) -> None:
    open_desk.answers.answers_at_once = False
    outcome: list[object] = []
    caller = threading.Thread(
        target=lambda: outcome.append(ask(open_desk.path, "POST", "/reload", {"wait": True}, timeout=60))
    )
    caller.start()
    until(lambda: open_desk.answers.commands, "the command")
    open_desk.look_ahead(3600)
    assert ask(open_desk.path, "GET", "/healthz")[0] == 200
    assert caller.is_alive()
    open_desk.at_rest(lambda: open_desk.answers.commands[0][2](409, {"error": "broken deploy"}))
    caller.join()
    assert outcome == [(409, {"error": "broken deploy"})]


def test_a_caller_that_leaves_before_the_outcome_hurts_no_one(open_desk: Desk) -> None:
    open_desk.answers.answers_at_once = False
    with connected(open_desk) as client:
        client.sendall(b"POST /reload HTTP/1.1\r\nHost: x\r\n\r\n")
        until(lambda: open_desk.answers.commands, "the command")
    until(lambda: not open_desk.socket._clients, "the hang-up")
    open_desk.at_rest(lambda: open_desk.answers.commands[0][2](200, {}))
    assert ask(open_desk.path, "GET", "/healthz")[0] == 200


def test_head_answers_without_a_body(open_desk: Desk) -> None:
    head, _, body = exchange(open_desk, b"HEAD /status HTTP/1.1\r\nHost: x\r\n\r\n").partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200") and body == b""


def test_a_request_in_single_bytes_is_understood(open_desk: Desk) -> None:
    with connected(open_desk) as client:
        for byte in b"POST /drain HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}":
            client.send(bytes([byte]))
        assert b"200" in everything(client)


def test_curl_speaks_with_it(open_desk: Desk) -> None:
    for line in ([], ["-X", "POST", "-d", "{}", "-H", "Expect: 100-continue"]):
        path = "/drain" if line else "/status"
        result = subprocess.run(
            ["curl", "-sS", "--max-time", "30", "--unix-socket", str(open_desk.path), *line, f"http://x{path}"],
            capture_output=True,
        )
        assert result.returncode == 0 and json.loads(result.stdout), result.stderr


# ---------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"GET /nothing HTTP/1.1\r\nHost: x\r\n\r\n", 404),
        (b"GET /../etc/passwd HTTP/1.1\r\nHost: x\r\n\r\n", 404),
        (b"POST /status HTTP/1.1\r\nHost: x\r\n\r\n", 405),
        (b"GET /stop HTTP/1.1\r\nHost: x\r\n\r\n", 405),
        (b"POST /scale HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\n[1]", 400),
        (b"POST /scale HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\n{{{", 400),
        (b"POST /scale HTTP/1.1\r\nHost: x\r\nContent-Length: 40000\r\n\r\n" + b"[" * 40000, 400),
        (b"POST /scale HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n\xff\xfe", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n\r\n", 400),
        (b"GET /x HTTP/1.1\r\nHost: x\r\nX: " + b"y" * 20_000, 431),
        (b"POST /scale HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999\r\n\r\n" + b"y" * 70_000, 413),
        (
            b"POST /scale HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
            + (b"8000\r\n" + b"y" * 0x8000 + b"\r\n") * 3,
            413,
        ),
    ],
)
def test_a_bad_request_is_refused_with_its_status(open_desk: Desk, request_bytes: bytes, status: int) -> None:
    answer = exchange(open_desk, request_bytes)
    assert answer.startswith(f"HTTP/1.1 {status} ".encode())
    assert not open_desk.answers.commands


def test_a_fault_in_an_answer_is_a_500_and_the_loop_lives(open_desk: Desk) -> None:
    open_desk.answers.document["raise"] = 1
    assert ask(open_desk.path, "GET", "/status")[0] == 500
    assert ask(open_desk.path, "GET", "/healthz")[0] == 200


def test_tcp_reads_but_may_not_command(open_desk: Desk) -> None:
    for request, status in ((b"GET /healthz", b"200"), (b"GET /status", b"200"), (b"POST /stop", b"403")):
        with socket.create_connection(("127.0.0.1", open_desk.tcp_port), 30) as client:
            client.sendall(request + b" HTTP/1.1\r\nHost: x\r\n\r\n")
            assert everything(client).split(b" ")[1] == status
    assert not open_desk.answers.commands


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become someone else")
def test_another_user_may_look_where_the_mode_allows_but_not_command() -> None:
    # Not below tmp_path, whose directories are closed to others.
    directory = Path(f"/run/jobpool-test-{os.getpid()}")
    directory.mkdir(mode=0o755)
    try:
        with desk(directory, mode=0o666) as running:
            assert as_nobody(running.path, "GET /healthz") == "200"
            assert as_nobody(running.path, "POST /stop") == "403"
            running.path.chmod(0o660)
            assert as_nobody(running.path, "GET /healthz") == "NotPermitted"
    finally:
        directory.rmdir()


def as_nobody(path: Path, request: str) -> str:
    code = (
        "import os, sys; from pool.cli.control import *\n"
        "os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        "method, path = sys.argv[2].split()\n"
        "try: print(ask(sys.argv[1], method, path, timeout=30)[0])\n"
        "except PoolUnreachable as error: print(type(error).__name__)\n"
    )
    result = subprocess.run([sys.executable, "-c", code, str(path), request], capture_output=True, text=True)
    return result.stdout.strip() or result.stderr


# ---------------------------------------------------------------- strangers


def test_a_silent_client_is_hung_up_after_five_seconds_and_not_before(open_desk: Desk) -> None:
    began = time.monotonic()
    with connected(open_desk) as client:
        client.sendall(b"GET /sta")
        until(lambda: open_desk.socket._clients, "the client")
        open_desk.skip(4.0)
        turns = open_desk.turns
        until(lambda: open_desk.turns > turns + 2, "two turns")
        assert open_desk.socket._clients or time.monotonic() - began > 1.0
        open_desk.skip(2.0)
        assert is_hung_up(client)


def test_when_all_places_are_taken_the_oldest_silent_one_goes(open_desk: Desk) -> None:
    with contextlib.ExitStack() as stack:
        silent = [stack.enter_context(connected(open_desk)) for _ in range(MOST_CLIENTS)]
        until(lambda: len(open_desk.socket._clients) == MOST_CLIENTS, "a full house")
        assert ask(open_desk.path, "GET", "/healthz", timeout=30)[0] == 200
        assert is_hung_up(silent[0])
        silent[-1].sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        assert b"200" in everything(silent[-1])


def test_a_client_that_waits_for_an_outcome_is_never_evicted(open_desk: Desk) -> None:
    open_desk.answers.answers_at_once = False
    with contextlib.ExitStack() as stack:
        waiting = stack.enter_context(connected(open_desk))
        waiting.sendall(b"POST /reload HTTP/1.1\r\nHost: x\r\n\r\n")
        until(lambda: open_desk.answers.commands, "the command")
        for _ in range(2 * MOST_CLIENTS):
            stack.enter_context(connected(open_desk))
        until(lambda: len(open_desk.socket._clients) == MOST_CLIENTS, "a full house")
        open_desk.at_rest(lambda: open_desk.answers.commands[0][2](200, {"done": 1}))
        assert b'"done"' in everything(waiting)


def test_slow_readers_of_a_huge_answer_disturb_no_one(open_desk: Desk) -> None:
    open_desk.answers.document["filling"] = "x" * 4_000_000
    with contextlib.ExitStack() as stack:
        slow = [stack.enter_context(connected(open_desk)) for _ in range(10)]
        for client in slow:
            client.sendall(b"GET /status HTTP/1.1\r\nHost: x\r\n\r\n")
        until(lambda: len(open_desk.socket._clients) == len(slow), "the slow ones")
        assert ask(open_desk.path, "GET", "/healthz", timeout=30)[0] == 200
        assert len(everything(slow[0])) > 4_000_000  # one that does read gets it all
        open_desk.skip(6.0)
        until(lambda: not open_desk.socket._clients, "the hang-ups")


@pytest.mark.serial
def test_ten_thousand_connections_do_not_keep_a_friend_out(open_desk: Desk) -> None:
    stop = threading.Event()
    count = [0]

    def flood() -> None:
        crowd: list[socket.socket] = []
        while not stop.is_set() and count[0] < 10_000:
            stranger = socket.socket(socket.AF_UNIX)
            stranger.settimeout(5)
            with contextlib.suppress(OSError):
                stranger.connect(str(open_desk.path))
                count[0] += 1
            crowd.append(stranger)
            if len(crowd) > 300:
                crowd.pop(0).close()
        for stranger in crowd:
            stranger.close()

    flooder = threading.Thread(target=flood)
    flooder.start()
    try:
        answered = 0
        while flooder.is_alive():
            answered += ask(open_desk.path, "GET", "/healthz", timeout=30)[0] == 200
    finally:
        stop.set()
        flooder.join()
    assert count[0] == 10_000 and answered > 10
    assert len(open_desk.socket._clients) <= MOST_CLIENTS


def test_without_free_descriptors_the_loop_rests_and_recovers(tmp_path: Path) -> None:
    code = """
import os, resource, socket, sys
from pathlib import Path
from pool.cli.control import ask
from tests.helpers.desks import desk
from pool import logs
from pool.settings import LogSection
from tests.helpers.until import until
logs.configure(LogSection(), pool="p", who="parent", in_parent=True)
with desk(Path(sys.argv[1])) as running:
    clients = [socket.socket(socket.AF_UNIX) for _ in range(8)]
    resource.setrlimit(resource.RLIMIT_NOFILE, (os.dup(0) + 1, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    for client in clients:
        client.connect(str(running.path))
    until(lambda: running.socket._deaf_until is not None, "the rest")
    before = running.turns
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    running.skip(2.0)
    for client in clients:
        client.close()
    assert ask(running.path, "GET", "/healthz", timeout=30)[0] == 200
    assert running.turns - before < 5000
"""
    result = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, cwd=Path(__file__).parents[2]
    )
    assert result.returncode == 0, result.stderr


# ---------------------------------------------------------------- the caller's end


def test_the_command_line_tells_apart_why_nobody_answers(tmp_path: Path) -> None:
    path = tmp_path / "s.sock"
    with pytest.raises(NoSocket, match="no pool is running"):
        ask(path, "GET", "/healthz")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        with pytest.raises(Refused, match="is gone"):
            ask(path, "GET", "/healthz")
        listener.listen(1)
        with pytest.raises(NoAnswer, match=r"did not answer within 0\.1 s"):
            ask(path, "GET", "/healthz", timeout=0.1)
        with contextlib.ExitStack() as stack, pytest.raises(NoAnswer):
            for _ in range(3):  # the backlog is full
                waiting = stack.enter_context(socket.socket(socket.AF_UNIX))
                waiting.setblocking(False)
                with contextlib.suppress(BlockingIOError):
                    waiting.connect(str(path))
            ask(path, "GET", "/healthz", timeout=0.1)


def test_asking_loads_nothing_heavy() -> None:
    code = "import sys, pool.cli.control; print([m for m in ('pydantic', 'loguru', 'h11', 'http', 'typer', 'psutil') if m in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.stdout.strip() == "[]", result.stderr
