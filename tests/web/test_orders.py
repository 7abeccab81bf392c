"""What is ordered over HTTP and on the dashboard: it is in the audit log, and work on many jobs outlives its web process."""

import asyncio
import hashlib
import json
import os
import re
import signal
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from pool.backends.contract import Want
from pool.backends.sqlite.backend import SqliteBackend
from pool.jobs.internal import BULK_QUEUE
from pool.jobs.job import Settlement
from pool.jobs.lifecycle import Status
from pool.web import holding
from pool.web.dashboard import bulk
from pool.web.dashboard.trip import Trip
from pool.web.desk import StoreDesk
from tests.helpers.builders import new_jobs
from tests.helpers.house import House
from tests.helpers.servers import running
from tests.helpers.until import until
from tests.web.serving import Api, free_port, token_of

OpenHouse = Callable[..., House]


# ---------------------------------------------------------------- the audit log


def entries(api: Api, job_id: str) -> list[tuple[str, str]]:
    """Who did what to this job, the last first."""
    return [(entry.who, entry.act) for entry in api.store().audit() if job_id in entry.details]


def test_cancel_and_retry_over_http_are_in_the_audit_log_under_the_tokens_name(api: Api, queue: str) -> None:
    job = api.enqueue(queue)["id"]

    assert api.rival.post(f"/jobs/{job}/cancel").status_code == 404
    assert api.root.post(f"/jobs/{job}/cancel").status_code == 200
    assert api.root.post(f"/jobs/{job}/retry", json={"payload": {"secret": "s3cret"}}).status_code == 200
    assert api.root.post("/jobs/00000000-0000-7000-8000-000000000000/cancel").status_code == 404

    assert entries(api, job) == [("root@http", "jobs retry"), ("root@http", "jobs cancel")]
    assert "00000000-0000-7000" not in str(api.store().audit())
    assert "s3cret" not in api.store().audit()[0].details
    assert [attempt.worker for attempt in api.store().job(job).attempts][-1] == "root"


def test_a_producer_cannot_drive_out_of_the_audit_log_what_operators_did(api: Api, queue: str) -> None:
    """The log keeps its newest entries: who could add to it at will could hide behind them."""
    before = api.store().audit(1000)
    for _ in range(3):
        job = api.enqueue(queue)["id"]
        assert api.shop.post(f"/jobs/{job}/cancel").status_code == 200
        assert api.shop.post(f"/jobs/{job}/retry").status_code == 403
        assert api.rival.post(f"/jobs/{job}/cancel").status_code == 404
    assert api.store().audit(1000) == before


# ---------------------------------------------------------------- the dashboard


@dataclass
class Desk:
    """A person signed in to the dashboard of a house."""

    house: House
    client: httpx.Client

    def order(self, path: str, **form: Any) -> str:
        """Press a button; the line that is said afterwards."""
        csrf = re.search(r'name="csrf" value="([0-9a-f]{64})"', self.client.get("/ui/queues").text)
        assert csrf
        answer = self.client.post(path, data={"csrf": csrf[1], **form})
        assert answer.status_code == 303, answer.text
        return httpx.URL(answer.headers["Location"]).params["said"]

    def page(self, path: str) -> str:
        answer = self.client.get(path)
        assert answer.status_code == 200
        return answer.text

    def web_pid(self) -> int:
        return int(until(lambda: (self.house.status()["web"] or {}).get("pid"), "a web process"))

    def replace_web(self, number: int) -> None:
        """Send the web process a signal and wait for the next one."""
        before = self.web_pid()
        os.kill(before, number)
        until(lambda: self.web_pid() != before and self.answers(), "another web process")

    def answers(self) -> bool:
        try:
            return self.client.get("/healthz").status_code == 200
        except httpx.TransportError:
            return False

    def dead(self, count: int) -> str:
        """So many dead letters of one kind, none of which a worker takes again; their fingerprint."""
        jobs = self.house.enqueue_many([("tasks.give_up", {})] * count)
        until(lambda: self.house.counts()["failed"] >= count, "all failed")
        self.house.store.set_queue("default", paused=True)
        key = re.search(r'name="key" value="([^"]+)"', self.page("/ui/dead"))
        assert key and len(jobs) == count
        return key[1]


@pytest.fixture(params=["sqlite", "valkey"])
def desk(request: pytest.FixtureRequest, open_house: OpenHouse) -> Iterator[Desk]:
    """A house on each kind of store, with its dashboard."""
    if request.param == "sqlite":
        yield from opened(open_house)
    else:
        with running("valkey") as server:
            yield from opened(open_house, backend=server.url)


def opened(open_house: OpenHouse, **options: Any) -> Iterator[Desk]:
    port, digest = free_port(), hashlib.sha256(token_of("ada").encode()).hexdigest()
    settings = (
        f'[web]\nenabled = true\nlisten = "127.0.0.1:{port}"\n'
        f'[[tokens]]\nname = "ada"\nrole = "admin"\nsha256 = "{digest}"\n'
    )
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=30) as client:
        desk = Desk(open_house(workers=2, settings=settings, **options), client)
        until(desk.answers, "the dashboard")
        csrf = re.search(r'name="csrf" value="([0-9a-f]{64})"', client.get("/ui/sign-in").text)
        assert csrf
        assert client.post("/ui/sign-in", data={"csrf": csrf[1], "token": token_of("ada")}).status_code == 303
        yield desk


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM], ids=["killed", "replaced"])
def test_a_retry_of_many_goes_on_when_the_web_process_is_gone_in_the_midst(desk: Desk, number: int) -> None:
    key = desk.dead(40)
    desk.order("/ui/dead", act="retry", key=key, title="tasks.give_up", rate="10")
    until(lambda: desk.house.counts()["pending"] >= 5, "the first ones retried")

    desk.replace_web(number)

    until(lambda: desk.house.counts()["pending"] == 40, "all retried")
    (work,) = until(lambda: [w for w in bulk.recent(desk.house.store) if w.state == "finished"], "its end")
    assert desk.house.counts()["failed"] == 0
    done = int(work.so_far.partition(" ")[0])
    assert 20 <= done <= 40  # what was done since the last word to the store is not counted twice, and may be missing
    assert desk.house.job(work.id).attempts[0].outcome == ("returned" if number == signal.SIGTERM else "completed")
    assert "Retry dead letters of tasks.give_up" in desk.page("/ui/dead")
    audit = [(entry.who, entry.act) for entry in desk.house.store.audit()]
    assert audit == [("ada@dashboard", "dead retry")]
    assert "ada@dashboard" in desk.house.cli("audit").stdout


def test_an_order_under_way_can_be_stopped_on_the_page_and_what_is_dead_by_then_stays_dead(desk: Desk) -> None:
    key = desk.dead(40)
    desk.order("/ui/dead", act="discard", key=key, title="tasks.give_up", rate="5")
    (work,) = until(lambda: bulk.recent(desk.house.store), "the order")
    until(lambda: desk.house.counts()["failed"] < 40, "the first one discarded")

    assert desk.order("/ui/work/stop", job=work.id) == "Stopped."

    until(lambda: desk.house.job(work.id).status == "cancelled", "the order stopped")
    left = desk.house.counts()["failed"]
    assert 0 < left < 40
    assert desk.order("/ui/work/stop", job=work.id).startswith("Nothing was changed")


def test_a_purge_is_done_once_and_not_begun_again_by_another_process(desk: Desk) -> None:
    desk.house.store.set_queue("default", paused=True)
    desk.house.enqueue_many([("tasks.quick", {})] * 2500)
    desk.order("/ui/queues", act="purge", queue="default")
    until(lambda: desk.house.counts()["pending"] == 0, "purged")
    (work,) = until(lambda: [w for w in bulk.recent(desk.house.store) if w.state == "finished"], "its end")
    assert work.so_far == "2,500 done"


def test_the_last_hour_is_whole_though_the_web_process_was_replaced(desk: Desk) -> None:
    """What it has seen itself is gone with it; the keeper has counted from the pool's start."""
    house = desk.house
    jobs = house.enqueue_many([("tasks.quick", {})] * 30)
    until(lambda: house.counts()["completed"] == 30, "all completed")
    assert jobs and house.status()["history"]
    until(lambda: "last hour: 30 completed" in desk.page("/"), "them on the chart")

    desk.replace_web(signal.SIGKILL)

    until(lambda: "last hour: 30 completed" in desk.page("/"), "them on the chart again")


@pytest.mark.parametrize("why", ["old", "begun"])
def test_a_purge_that_is_late_or_was_begun_by_another_removes_nothing(tmp_path: Path, why: str) -> None:
    """What came into the queue since then was never meant; and who retries dead letters must not purge."""
    store = SqliteBackend(str(tmp_path / "jobpool.db"))
    store.enqueue(new_jobs(3, queue="mail"))
    bulk.give(store, "purge", "mail", "Remove what waits in mail", "ada")
    want = Want(queues=(BULK_QUEUE,), lease_seconds=60)
    claim, hold = holding.claim(store, holding.new_lane("bulk"), 1, want) or pytest.fail("no order")
    if why == "old":
        order = bulk.order_in(claim.payload)
        claim = replace(claim, payload=json.dumps(asdict(replace(order, before=order.before - 2 * 3600))))
    else:
        claim = replace(claim, checkpoint='{"after": null, "done": 1000, "refused": 0}')

    services = SimpleNamespace(desk=StoreDesk(lambda: SqliteBackend(str(tmp_path / "jobpool.db"))))

    async def carry_out() -> Settlement:
        services.stopping = asyncio.Event()
        return await Trip(services, claim, hold).outcome()  # type: ignore[arg-type]

    assert holding.settle(store, hold, asyncio.run(carry_out()))
    services.desk.close()
    assert store.job(claim.job_id).status is Status.CANCELLED
    assert [queue.pending for queue in store.queues() if queue.name == "mail"] == [3]
    store.close()


def test_what_the_dashboard_orders_of_its_pool_is_in_the_audit_log(desk: Desk) -> None:
    desk.order("/ui/pools", act="scale", count="3", group="workers")
    desk.order("/ui/queues", act="pause", queue="default")
    desk.order("/ui/queues", act="resume", queue="default")
    desk.order("/ui/pools", act="scale", count="3", group="nobody")
    acts = [(entry["who"], entry["act"], entry["details"]) for entry in desk.house.cli_json("audit")]
    assert acts == [
        ("ada@dashboard", "resume", {"queue": "default"}),
        ("ada@dashboard", "pause", {"queue": "default"}),
        ("ada@dashboard", "scale", {"count": 3, "group": "workers"}),
    ]


def test_one_job_is_cancelled_retried_and_discarded_on_its_page_under_the_persons_name(desk: Desk) -> None:
    house = desk.house
    waiting = house.enqueue("tasks.quick", delay=3600)
    assert desk.order("/ui/jobs", job=waiting, act="cancel") == "It is cancelled."
    assert house.job(waiting).status == "cancelled"
    assert desk.order("/ui/jobs", job=waiting, act="retry") == "It is pending again."
    house.wait_until(waiting, "completed")
    assert desk.order("/ui/jobs", job=waiting, act="cancel").startswith("Nothing was changed")
    dead = house.enqueue("tasks.give_up")
    house.wait_until(dead, "failed")
    assert desk.order("/ui/jobs", job=dead, act="discard") == "It is discarded."
    assert (house.job(dead).status, house.job(dead).reason) == ("cancelled", "discarded")

    running = house.enqueue("tasks.hold", {"gate": "a"})
    house.wait_for_worker_of(running)
    assert desk.order("/ui/jobs", job=running, act="cancel").startswith("Asked it to stop")
    acts = [
        (entry.who, entry.act) for entry in house.store.audit() if dead in entry.details or running in entry.details
    ]
    assert acts == [("ada@dashboard", "jobs cancel"), ("ada@dashboard", "jobs discard")]
    house.release("a")


def test_pools_of_several_hosts_stand_on_one_page(desk: Desk, open_house: OpenHouse) -> None:
    annex = open_house(workers=3, backend=desk.house.url, start=False)
    annex.config_file.write_text(annex.config_file.read_text().replace('name = "house"', 'name = "annex"'))
    annex.start()
    until(lambda: "annex" in desk.page("/ui/pools"), "the other pool")
    headings = ("<h3>house</h3>", "<h3>annex</h3>")
    for path in ("/", "/ui/pools"):
        until(lambda path=path: all(heading in desk.page(path) for heading in headings), f"both on {path}")
    until(lambda: desk.page("/ui/pools").count('class="cell is-idle"') >= 5, "a cell for each worker of both")


def test_a_producer_can_give_no_order_of_ours(api: Api) -> None:
    assert api.boss.post("/jobs", json={"type": "jobpool.bulk", "queue": BULK_QUEUE}).status_code in (403, 422)
    assert api.boss.post("/jobs", json={"type": "thumb", "queue": BULK_QUEUE}).status_code == 403
    assert api.php.post("/jobs/claim", json={"queues": [BULK_QUEUE]}).status_code == 403


def test_an_order_that_waits_for_a_web_process_is_no_fault_of_idle_workers(open_house: OpenHouse) -> None:
    """Else /readyz would say that work lies there and nobody does it."""
    house = open_house(workers=1)
    bulk.give(house.store, "purge", "default", "Remove what waits in default", "ada")
    queues = until(lambda: [q for q in house.status()["queues"] if q["name"] == BULK_QUEUE], "the queue in the status")
    assert [queue["served"] for queue in queues] == [False]
    assert "the web process serves it" in house.cli("status").stdout
