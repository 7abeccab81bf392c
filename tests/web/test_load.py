"""Many at once: how fast, how steady, and that nothing grows. The control runs in the same minute on the same machine."""

import asyncio
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from tests.helpers.house import House
from tests.helpers.until import until
from tests.web.serving import Api, ending, free_port, token_of, tokens_toml

BARE = """
import sys
import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel

class Job(BaseModel):
    type: str
    payload: dict = {}
    queue: str | None = None
    priority: int | str | None = None
    max_retries: int | None = None
    idempotency_key: str | None = None

app = FastAPI()

@app.get("/healthz")
async def health() -> dict:
    return {}

@app.post("/jobs", status_code=201)
async def enqueue(job: Job) -> Job:
    return job

uvicorn.run(app, port=int(sys.argv[1]), log_level="error", http="h11", loop="asyncio")
"""
BODY = {"type": "thumb", "payload": {"path": "/x/y.jpg", "width": 80, "height": 60}, "priority": 10}


@contextmanager
def bare_server(folder: Path) -> Iterator[str]:
    """The control: FastAPI and uvicorn, a route that only validates the same body and answers 201."""
    (folder / "bare.py").write_text(BARE)
    address = f"http://127.0.0.1:{(port := free_port())}"
    process = subprocess.Popen([sys.executable, str(folder / "bare.py"), str(port)], stderr=subprocess.DEVNULL)
    try:
        until(lambda: is_up(address), "the control")
        yield address
    finally:
        process.kill()
        process.wait()


def is_up(address: str) -> bool:
    try:
        return httpx.get(f"{address}/healthz", trust_env=False).status_code == 200
    except httpx.TransportError:
        return False


def load(address: str, seconds: float, *, connections: int, body: bytes) -> tuple[int, Counter[int]]:
    """Requests per connection one after the other, as raw bytes, so that the client costs next to nothing."""
    head = (
        f"POST /jobs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token_of('shop')}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    ).encode()
    host, port = address.removeprefix("http://").split(":")
    return asyncio.run(_load(host, int(port), head + body, seconds, connections))


async def _load(host: str, port: int, request: bytes, seconds: float, connections: int) -> tuple[int, Counter[int]]:
    statuses: Counter[int] = Counter()
    end = time.monotonic() + seconds

    async def caller() -> None:
        reader, writer = await asyncio.open_connection(host, port)
        while time.monotonic() < end:
            writer.write(request)
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().partition(b"content-length:")[2].partition(b"\r")[0])
            await reader.readexactly(length)
            statuses[int(head[9:12])] += 1
        writer.close()

    await asyncio.gather(*(caller() for _ in range(connections)))
    return statuses.total(), statuses


@pytest.mark.serial
def test_enqueue_over_http_is_at_least_half_as_fast_as_a_route_that_only_validates(
    open_api: Callable[..., Api], tmp_path: Path
) -> None:
    import json

    api, body, ratios = open_api(), json.dumps(BODY).encode(), []
    with bare_server(tmp_path) as bare:
        for address in (api.address, bare):  # warm
            load(address, 0.5, connections=32, body=body)
        while len(ratios) < 8 and max(ratios, default=0.0) < 0.5:  # the machine may be busy with something else
            ours, statuses = load(api.address, 1.5, connections=32, body=body)
            control, _ = load(bare, 1.5, connections=32, body=body)
            assert set(statuses) == {201}
            ratios.append(ours / control)
            print(f"enqueue {ours / 1.5:.0f}/s, control {control / 1.5:.0f}/s, ratio {ours / control:.2f}")
    assert max(ratios) >= 0.5, ratios


@pytest.mark.full
def test_two_hundred_clients_for_ten_seconds_without_an_error_or_growth(open_api: Callable[..., Api]) -> None:
    import json

    api = open_api()
    body = json.dumps(BODY).encode()
    load(api.address, 3, connections=200, body=body)
    before = sizes(api)
    count, statuses = load(api.address, 10, connections=200, body=body)
    assert statuses == {201: count}
    until(lambda: sizes(api)[1] <= before[1] + 5, "no descriptor left open")
    assert sizes(api)[0] < before[0] * 1.15 + 4_000_000
    print(f"{count / 10:.0f} jobs/s, {before[0] / 1e6:.0f} MB before, {sizes(api)[0] / 1e6:.0f} MB after")


def sizes(api: Api) -> tuple[int, int]:
    assert api.process is not None
    return int(psutil.Process(api.process.pid).memory_info().rss), len(os.listdir(f"/proc/{api.process.pid}/fd"))


SHARED_APP = """
import time
import pool
from ledger import noted, wait_for_gate

@pool.job(name="shared.work")
@noted
def work(n: int = 0) -> int:
    wait_for_gate("others")  # else the forked workers may be through before the others have asked once
    time.sleep(0.005)
    return n
"""


def share(open_house: Callable[..., House], open_api: Callable[..., Api], count: int) -> None:
    """Two workers over HTTP and two forked ones on one queue."""
    port = free_port()
    settings = f'[web]\nenabled = true\nlisten = "127.0.0.1:{port}"\n{tokens_toml()}'
    house = open_house(workers=2, app=SHARED_APP, settings=settings)
    api = open_api(house.url, port=port, start=False)
    until(api.answers, "the API")
    until(lambda: api.shop.get("/types").json()["types"], "its types")
    ids: list[str] = []
    for first in range(0, count, 500):
        numbers = range(first, min(first + 500, count))
        jobs = [{"type": "shared.work", "payload": {"n": n}} for n in numbers]
        ids += api.shop.post("/jobs/batch", json=jobs).json()["ids"]

    def work(name: str) -> list[str]:
        done, line = [], api.caller(name)
        while (answer := line.post("/jobs/claim", json={"queues": ["default"], "wait": 1})).status_code == 200:
            claim: dict[str, Any] = answer.json()
            done.append(claim["id"])
            house.release("others")
            assert line.post(f"/jobs/{claim['id']}/complete", json=ending(claim)).status_code == 200
        return done

    until(house.notes, "the forked ones at work")
    with ThreadPoolExecutor(2) as threads:
        over_http = [job_id for mine in threads.map(work, ["php", "node"]) for job_id in mine]
    until(lambda: house.counts()["completed"] == count, "all of them done")
    forked = [note["job"] for note in house.notes() if note["what"] == "start"]
    assert Counter(over_http + forked) == Counter(ids), "each exactly once"
    assert over_http, "the HTTP workers had their share"
    assert forked, "and the forked ones theirs"


def test_workers_over_http_and_forked_ones_share_a_queue(
    open_house: Callable[..., House], open_api: Callable[..., Api]
) -> None:
    share(open_house, open_api, 300)


@pytest.mark.full
def test_they_share_five_thousand_jobs(open_house: Callable[..., House], open_api: Callable[..., Api]) -> None:
    share(open_house, open_api, 5000)
