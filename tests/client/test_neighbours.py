"""The client beside threads, forks, gunicorn and event loops."""

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter

import httpx
import pytest

import pool
from pool.errors import BackendUnavailable
from tests.client.jobs_here import add
from tests.helpers.servers import free_port, running
from tests.helpers.stores import in_child, together
from tests.helpers.until import until

ROOT = Path(__file__).parents[2]


def pending(client: pool.Client) -> int:
    return sum(queue.pending for queue in client.backend().queues())


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_sixteen_threads_share_one_client(client: pool.Client) -> None:
    def work(number: int) -> list[str]:
        return [client.enqueue(add, {"a": number, "b": n}).job_id for n in range(40)]

    with ThreadPoolExecutor(16) as threads:
        ids = [job_id for found in threads.map(work, range(16)) for job_id in found]

    assert len(set(ids)) == 640
    assert pending(client) == 640


def test_a_thread_that_ends_takes_its_connection_with_it(client: pool.Client) -> None:
    client.enqueue(add, {"a": 1})
    before = open_files()

    for _ in range(20):
        thread = threading.Thread(target=client.enqueue, args=(add, {"a": 1}))
        thread.start()
        thread.join()

    until(lambda: open_files() <= before + 1, "the closed connections")


def test_a_closed_client_opens_again(client: pool.Client) -> None:
    first = client.enqueue(add, {"a": 1})
    client.close()

    assert client.get(first).type == "here.add"


def test_a_forked_child_makes_its_own_connection_and_leaves_its_parents_alone(client: pool.Client) -> None:
    client.enqueue(add, {"a": 0})

    children = together(4, lambda number: [client.enqueue(add, {"a": number}).job_id for _ in range(25)])
    mine = [client.enqueue(add, {"a": 9}).job_id for _ in range(25)]

    assert len({job_id for found in [*children, mine] for job_id in found}) == 125
    assert pending(client) == 126


def test_a_fork_while_other_threads_enqueue_is_no_deadlock(client: pool.Client) -> None:
    client.enqueue(add, {"a": 0})
    stop = threading.Event()

    def busy() -> None:
        while not stop.is_set():
            client.enqueue(add, {"a": 1})

    threads = [threading.Thread(target=busy) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        children = [in_child(lambda: client.enqueue(add, {"a": 2}).job_id) for _ in range(5)]
        ids = [child.result() for child in children]
    finally:
        stop.set()
        for thread in threads:
            thread.join()

    assert len(set(ids)) == 5
    assert all(client.get(job_id).status.is_live for job_id in ids)


# ---------------------------------------------------------------- gunicorn


WEB_APP = """
import os
import pool
from tests.client.jobs_here import add

client = pool.Client({url!r})
AT_IMPORT = client.enqueue(add, {{"a": -1}}).job_id   # the master has a connection when it forks

def app(environ, start_response):
    job = client.enqueue(add, {{"a": os.getpid()}})
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [f"{{os.getpid()}} {{job.job_id}}".encode()]
"""


@contextmanager
def gunicorn(folder: Path, *flags: str) -> Iterator[str]:
    """A real gunicorn with four forked workers; its address."""
    port = free_port()
    argv = [sys.executable, "-m", "gunicorn", "-w", "4", "--preload", "-b", f"127.0.0.1:{port}", *flags, "web_app:app"]
    env = {**os.environ, "PYTHONPATH": f"{folder}:{ROOT}"}
    with (folder / "gunicorn.log").open("wb") as log:
        process = subprocess.Popen(argv, cwd=folder, env=env, stdout=log, stderr=log)
    try:
        until(lambda: _answers(port, process), (folder / "gunicorn.log").read_text())
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(60)


def _answers(port: int, process: "subprocess.Popen[bytes]") -> bool:
    assert process.poll() is None
    try:
        return httpx.get(f"http://127.0.0.1:{port}/").status_code == 200
    except httpx.TransportError:
        return False


@pytest.mark.parametrize("flags", [(), ("--threads", "4")], ids=["sync", "threads"])
def test_a_web_app_under_preforking_gunicorn_loses_and_doubles_nothing(
    client: pool.Client, url: str, tmp_path: Path, flags: tuple[str, ...]
) -> None:
    (tmp_path / "web_app.py").write_text(WEB_APP.format(url=url))
    with gunicorn(tmp_path, *flags) as address, ThreadPoolExecutor(8) as threads:
        before = pending(client)
        answers = list(threads.map(lambda _: httpx.get(address, timeout=60).text.split(), range(120)))

    assert len({job_id for _, job_id in answers}) == 120
    assert pending(client) == before + 120
    assert {client.get(job_id).payload for pid, job_id in answers} == {f'{{"a":{pid}}}' for pid, _ in answers}


# ---------------------------------------------------------------- event loops


def test_two_hundred_requests_at_once_through_fastapi(client: pool.Client) -> None:
    from fastapi import FastAPI

    app = FastAPI()

    @app.post("/jobs/{number}")
    async def enqueue(number: int) -> str:
        return (await client.enqueue_async(add, {"a": number})).job_id

    @app.post("/sync/{number}")
    def enqueue_sync(number: int) -> str:
        return client.enqueue(add, {"a": number}).job_id

    async def ask() -> list[str]:
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://app", timeout=120) as http:
            paths = [f"/jobs/{n}" for n in range(100)] + [f"/sync/{n}" for n in range(100)]
            return [answer.json() for answer in await asyncio.gather(*(http.post(path) for path in paths))]

    assert len(set(asyncio.run(ask()))) == 200
    assert pending(client) == 200


def test_waiting_for_a_job_does_not_hold_up_the_loop(client: pool.Client) -> None:
    receipt = client.enqueue(add, {"a": 1})

    async def both() -> int:
        waiting = asyncio.create_task(client.wait_async(receipt, timeout=60))
        turns = 0
        while turns < 50:
            await asyncio.sleep(0)
            turns += 1
        client.cancel(receipt)
        assert (await waiting).status.value == "cancelled"
        return turns

    assert asyncio.run(both()) == 50


# ---------------------------------------------------------------- a store that is away


@pytest.mark.serial
def test_a_store_that_refuses_is_reported_within_two_seconds() -> None:
    client = pool.Client(f"redis://127.0.0.1:{free_port()}/0")
    begun = perf_counter()

    with pytest.raises(BackendUnavailable):
        client.enqueue(add, {"a": 1})

    assert perf_counter() - begun < 6  # two, and much for a loaded machine


@pytest.mark.serial
def test_a_store_that_is_silent_is_reported_within_two_seconds_and_used_again_later() -> None:
    with running() as server, pool.Client(server.url) as client:
        client.enqueue(add, {"a": 1})
        server.freeze()
        begun = perf_counter()
        with pytest.raises(BackendUnavailable):
            client.enqueue(add, {"a": 2})
        took = perf_counter() - begun
        server.thaw()

        assert took < 6
        assert client.get(client.enqueue(add, {"a": 3})).status.is_live
