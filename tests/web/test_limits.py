"""Requests that are too long, too slow, too many or no HTTP; stores that are not there. Never a 500, never a hang."""

import asyncio
import contextlib
import json
import os
import resource
import select
import socket
import threading
import time
from collections.abc import Callable, Iterator

import psutil
import pytest

from pool.web.protocol import MAX_CONNECTIONS, Joining
from tests.helpers.servers import DEFAULT_FLAVOUR, Server, running
from tests.helpers.until import until
from tests.web.serving import Api, ending, token_of

MEGABYTE = 1024 * 1024


def head(path: str = "/jobs", *lines: str, who: str = "shop") -> bytes:
    start = [f"POST {path} HTTP/1.1", "Host: x", f"Authorization: Bearer {token_of(who)}"]
    return "\r\n".join([*start, "Content-Type: application/json", *lines, "", ""]).encode()


def status_of(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1]) if answer else 0


@pytest.mark.parametrize(("size", "status"), [(MEGABYTE - 1, 422), (MEGABYTE, 422), (MEGABYTE + 1, 413)])
def test_a_body_has_a_limit_to_the_byte(sqlite_api: Api, size: int, status: int) -> None:
    raw = b'{"type": "thumb", "payload": {"a": "' + b"x" * size
    answer = sqlite_api.shop.post("/jobs", content=raw[:size], headers={"Content-Type": "application/json"})
    assert answer.status_code == status


def test_a_chunked_body_has_the_same_limit_and_is_not_read_to_its_end(sqlite_api: Api) -> None:
    sent = 0

    def endless() -> Iterator[bytes]:
        nonlocal sent
        while sent < 50 * MEGABYTE:
            sent += 65_536
            yield b"x" * 65_536

    before = memory_of(sqlite_api)
    with contextlib.suppress(Exception):
        answer = sqlite_api.shop.post("/jobs", content=endless(), headers={"Content-Type": "application/json"})
        assert answer.status_code == 413
    assert sent < 20 * MEGABYTE
    assert memory_of(sqlite_api) - before < 10 * MEGABYTE
    assert sqlite_api.answers()


def test_a_lying_content_length_gains_nothing(sqlite_api: Api) -> None:
    """Ten gigabytes announced, none sent; a negative one; two different ones; less than what comes."""
    for lines, statuses in (
        (["Content-Length: 10000000000"], {413}),
        (["Content-Length: -1"], {400}),
        (["Content-Length: 5", "Content-Length: 6"], {400}),
        (["Content-Length: 1e3"], {400}),
        (["Content-Length: 99999999999999999999999999"], {400, 413}),
        (["Transfer-Encoding: chunked", "Content-Length: 3"], {400, 422}),
    ):
        answer = sqlite_api.raw(head("/jobs", *lines, "Connection: close") + b"0\r\n\r\n")
        assert status_of(answer) in statuses, (lines, answer)
    short = sqlite_api.raw(head("/jobs", "Content-Length: 2", "Connection: close") + b"{}GARBAGE")
    assert status_of(short) == 422


def test_what_is_no_http_is_400(sqlite_api: Api) -> None:
    for noise in (b"\x16\x03\x01\x02\x00\x01\x00", b"GET\r\n\r\n", b"\r\n\r\n\0\0\r\n\r\n"):
        assert status_of(sqlite_api.raw(noise)) in (400, 0), noise
    long_head = b"GET /jobs HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 200_000 + b"\r\n\r\n"
    assert status_of(sqlite_api.raw(long_head)) in (400, 0)
    assert sqlite_api.answers()


def test_a_client_that_never_ends_its_head_is_cut_off(sqlite_api: Api) -> None:
    """A byte now and then does not move the deadline."""
    began = time.monotonic()
    place = ("127.0.0.1", sqlite_api.port)
    with socket.create_connection(place, timeout=60) as silent, socket.create_connection(place, timeout=60) as slow:
        cut = threading.Thread(target=drip, args=(slow,))
        cut.start()
        assert sqlite_api.answers(), "others are served meanwhile"
        assert silent.recv(1) == b""
        cut.join(60)
        assert not cut.is_alive()
    assert 5 < time.monotonic() - began < 50


def drip(line: socket.socket) -> None:
    with contextlib.suppress(OSError):
        line.sendall(b"POST /jobs HTTP/1.1\r\nHost: x\r\n")
        while True:
            line.sendall(b"X")
            time.sleep(0.3)


def test_many_slow_clients_do_not_keep_others_out(sqlite_api: Api, queue: str) -> None:
    with contextlib.ExitStack() as stack:
        for _ in range(200):
            line = stack.enter_context(socket.create_connection(("127.0.0.1", sqlite_api.port), timeout=30))
            line.sendall(head("/jobs", "Content-Length: 100") + b"{")
        assert sqlite_api.enqueue(queue)["status"] == "pending"


def test_every_answer_carries_what_browsers_need_to_behave(sqlite_api: Api) -> None:
    for answer in (sqlite_api.shop.get("/jobs"), sqlite_api.stranger.get("/jobs"), sqlite_api.shop.get("/nowhere")):
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Cache-Control"] == "no-store"
        assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
        assert "server" not in answer.headers


# ---------------------------------------------------------------- the store is away


@pytest.fixture
def redis_server() -> Iterator[Server]:
    with running(DEFAULT_FLAVOUR) as server:
        yield server


@pytest.mark.parametrize("accident", ["stop", "freeze"])
def test_an_absent_store_is_503_within_two_seconds(
    open_api: Callable[..., Api], redis_server: Server, queue: str, accident: str
) -> None:
    api = open_api(redis_server.url)
    job = api.enqueue(queue)
    getattr(redis_server, accident)()
    for method, path, body in (
        ("POST", "/jobs", {"type": "thumb", "queue": queue}),
        ("GET", f"/jobs/{job['id']}", None),
        ("POST", "/jobs/batch", [{"type": "thumb", "queue": queue}]),
    ):
        began = time.monotonic()
        answer = api.shop.request(method, path, json=body)
        assert answer.status_code == 503, answer.text
        assert int(answer.headers["Retry-After"]) > 0
        assert str(redis_server.port) not in answer.text, "where it should be is nobody's business"
        assert time.monotonic() - began < 10, "two seconds, and much for a loaded machine; callers wait for 60"
    assert api.answers(), "the server itself is well"
    {"stop": redis_server.start, "freeze": redis_server.thaw}[accident]()
    until(lambda: api.shop.post("/jobs", json={"type": "thumb", "queue": queue}).status_code == 201, "it is back")


def test_a_locked_database_is_503_and_nothing_is_stored(open_api: Callable[..., Api], queue: str) -> None:
    api = open_api()
    api.enqueue(queue)
    with holding_the_write_lock(api):
        began = time.monotonic()
        answer = api.shop.post("/jobs", json={"type": "thumb", "queue": queue})
        assert (answer.status_code, "Retry-After" in answer.headers) == (503, True)
        assert time.monotonic() - began < 10
    assert len(api.shop.get("/jobs", params={"queue": queue}).json()["jobs"]) == 1


@contextlib.contextmanager
def holding_the_write_lock(api: Api) -> Iterator[None]:
    """Another process has the lock and is stopped."""
    import signal
    import subprocess
    import sys

    code = (
        "import sys, time\nfrom pool.backends.opening import open_backend\n"
        f"store = open_backend({api.url!r})\nstore.ping()\n"
        "def hold(tx):\n    print('held', flush=True)\n    time.sleep(60)\n"
        "store._store.write(hold)\n"
    )
    holder = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        yield
    finally:
        holder.send_signal(signal.SIGKILL)
        holder.wait()
        holder.stdout.close()


# ---------------------------------------------------------------- many at once


def memory_of(api: Api) -> int:
    assert api.process is not None
    return int(psutil.Process(api.process.pid).memory_info().rss)


def descriptors_of(api: Api) -> int:
    assert api.process is not None
    return len(os.listdir(f"/proc/{api.process.pid}/fd"))


def test_stopping_answers_whoever_waits(open_api: Callable[..., Api], queue: str) -> None:
    api, asked = open_api(), json.dumps({"queues": [queue], "wait": 30}).encode()
    with socket.create_connection(("127.0.0.1", api.port), timeout=60) as line:
        line.sendall(head("/jobs/claim", f"Content-Length: {len(asked)}", who="php") + asked)
        until(lambda: has_been_read(api, line), "the claim with the server")
        assert api.answers(), "which has taken up what it has read"
        began = time.monotonic()
        assert api.stop() == 0
        assert status_of(line.recv(4096)) == 204
    assert time.monotonic() - began < 20


def has_been_read(api: Api, line: socket.socket) -> bool:
    """Whether nothing of what was sent on this line lies with the kernel any more."""
    ours, theirs = f":{line.getsockname()[1]:04X}", f":{api.port:04X}"
    with open("/proc/net/tcp") as table:
        rows = [row.split() for row in table]
    return any(row[1].endswith(theirs) and row[2].endswith(ours) and row[4].endswith(":00000000") for row in rows)


def test_problem_documents_are_rfc_9457(sqlite_api: Api) -> None:
    answer = sqlite_api.shop.get("/jobs/none")
    problem = answer.json()
    assert answer.headers["content-type"] == "application/problem+json"
    assert {"type", "title", "status", "detail"} <= problem.keys()
    assert (problem["status"], problem["type"]) == (404, "urn:jobpool:job-not-found")
    json.dumps(problem)


def test_a_result_beyond_max_result_is_refused_and_the_job_stays_with_its_holder(
    open_api: Callable[..., Api], queue: str
) -> None:
    api = open_api(settings="[jobs]\nmax_result = 1000\n")
    job = api.enqueue(queue)["id"]
    claim = api.claim(queue)
    answer = api.php.post(f"/jobs/{job}/complete", json=ending(claim, result="x" * 999))
    assert answer.status_code == 422
    assert "1,001 bytes, the limit is 1,000 (jobs.max_result)" in answer.json()["detail"]
    assert api.php.post(f"/jobs/{job}/complete", json=ending(claim, result="x" * 998)).status_code == 200


def test_the_head_of_an_answer_goes_out_with_its_body_and_alone_when_none_follows() -> None:
    sent: list[bytes] = []

    class Wire(asyncio.Transport):
        def write(self, data: bytes | bytearray | memoryview) -> None:
            sent.append(bytes(data))

        def close(self) -> None:
            sent.append(b"closed")

    async def talk() -> None:
        wire = Joining(Wire(), asyncio.get_running_loop())
        wire.write(b"HTTP/1.1 200 OK\r\n\r\n")
        wire.write(b"HTTP/1.1 in a body")
        wire.write(b"more")
        wire.write(b"HTTP/1.1 200 OK\r\n\r\n")  # of a stream whose first event is yet to come
        assert len(sent) == 2
        await asyncio.sleep(0)
        wire.write(b"event")
        wire.write(b"HTTP/1.1 204 No Content\r\n\r\n")
        wire.close()

    asyncio.run(talk())
    stream, last = b"HTTP/1.1 200 OK\r\n\r\n", b"HTTP/1.1 204 No Content\r\n\r\n"
    assert sent == [stream + b"HTTP/1.1 in a body", b"more", stream, b"event", last, b"closed"]


@pytest.mark.serial
def test_connections_beyond_the_cap_are_told_to_come_again_and_the_others_stay(open_api: Callable[..., Api]) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    api, opened = open_api(), []
    try:
        for _ in range(MAX_CONNECTIONS + 50):
            opened.append(socket.create_connection(("127.0.0.1", api.port)))
        until(lambda: len(spoken_to(opened)) >= 50, "answers to those beyond")
        answers = [line.recv(4096) for line in spoken_to(opened)]
        assert 50 <= len(answers) <= 60  # callers of the test have a few of their own
        assert {status_of(answer) for answer in answers} == {503}
        assert all(b"retry-after: 2" in answer for answer in answers)
        for line in opened:
            line.close()
        opened.clear()
        until(lambda: api.answers() and api.shop.get("/types").status_code == 200, "room again")
    finally:
        for line in opened:
            line.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def spoken_to(lines: list[socket.socket]) -> list[socket.socket]:
    """Those on which the server has said something by itself."""
    poll = select.poll()
    for line in lines:
        poll.register(line, select.POLLIN)
    ready = {fd for fd, _ in poll.poll(0)}
    return [line for line in lines if line.fileno() in ready]
