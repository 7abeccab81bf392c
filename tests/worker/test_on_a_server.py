"""The worker on Redis and Valkey: the server goes away and comes back."""

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from pool.backends import spool
from pool.jobs.lifecycle import Status
from tests.helpers.hired import Shop
from tests.helpers.servers import FLAVOURS, Server, running
from tests.helpers.until import until


@pytest.fixture(params=sorted(FLAVOURS))
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    with running(request.param, aof=True) as server:
        yield server


@pytest.fixture
def remote(server: Server, tmp_path: Path) -> Iterator[Shop]:
    shop = Shop(tmp_path, url=server.url)
    yield shop
    shop.close()


def held(shop: Shop) -> str:
    return shop.enqueue("held", json.dumps({"ledger": str(shop.folder / "ledger"), "gate": str(shop.folder / "gate")}))


def test_jobs_run_and_a_sleeper_is_woken(remote: Shop) -> None:
    worker = remote.hire()
    worker.until_idle()
    assert remote.until_over(remote.enqueue("add", '{"left": 2, "right": 2}')).result == "4"
    assert worker.stop() == 0


def test_a_result_waits_in_hand_while_the_server_is_away(remote: Shop, server: Server) -> None:
    job = held(remote)
    worker = remote.hire()
    worker.until_started()

    server.kill()
    (remote.folder / "gate").touch()
    until(lambda: "does not answer" in worker.text(), "a complaint")
    server.start()

    assert remote.until_over(job).status is Status.COMPLETED
    assert (remote.folder / "ledger").read_text().split() == ["start", "end"]
    assert not worker.has_ended()


def test_told_to_stop_while_the_server_is_away_it_keeps_the_result(remote: Shop, server: Server) -> None:
    job = held(remote)
    worker = remote.hire()
    worker.until_started()

    server.kill()
    worker.signal(signal.SIGTERM)
    (remote.folder / "gate").touch()
    assert worker.until_ended() == 0
    server.start()

    assert spool.replay(remote.store, remote.spool) == 1
    assert remote.job(job).status is Status.COMPLETED


def test_many_lanes_on_a_server(remote: Shop) -> None:
    payload = json.dumps({"ledger": str(remote.folder / "ledger"), "seconds": 0.05})
    jobs = [remote.enqueue("later", payload, queue="async") for _ in range(40)]
    worker = remote.hire(remote.config(concurrency=8, queues=["async"]))
    assert {remote.until_over(job).result for job in jobs} == {'"done"'}
    assert worker.stop() == 0
