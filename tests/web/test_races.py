"""Many callers at once with one key, and words about a job that is no more."""

import asyncio
import threading
from collections import Counter

import httpx
import pytest

from pool.jobs.lifecycle import Status
from tests.helpers.states import every_job
from tests.web.serving import Api, ending

CALLERS = 50


async def said_by_many(api: Api, body: dict[str, object]) -> list[httpx.Response]:
    """The same request from fifty connections at the same time."""
    limits = httpx.Limits(max_connections=CALLERS)
    async with httpx.AsyncClient(
        base_url=api.address, headers=api.shop.headers, timeout=60, limits=limits, trust_env=False
    ) as callers:
        return list(await asyncio.gather(*(callers.post("/jobs", json=body) for _ in range(CALLERS))))


@pytest.mark.timeout(300)
@pytest.mark.parametrize("rounds", [4, pytest.param(20, marks=pytest.mark.full)])
@pytest.mark.parametrize("kind", ["idempotency_key", "unique_key"])
def test_fifty_callers_with_one_key_make_one_job(api: Api, queue: str, kind: str, rounds: int) -> None:
    for turn in range(rounds):
        body = {"type": "thumb", "queue": queue, kind: f"{queue}-{turn}"}
        answers = asyncio.run(said_by_many(api, body))
        assert Counter(answer.status_code for answer in answers) == {201: 1, 200: CALLERS - 1}
        assert len({answer.json()["id"] for answer in answers}) == 1
    assert sum(job.queue == queue for job in every_job(api.store())) == rounds


@pytest.mark.timeout(300)
@pytest.mark.parametrize("times", [300, pytest.param(2000, marks=pytest.mark.full)])
def test_a_key_that_becomes_free_while_it_is_asked_for_never_confuses_anybody(api: Api, queue: str, times: int) -> None:
    """Each job is finished as soon as it is there, so the key is taken and free again all the time."""
    is_over = threading.Event()
    finished: list[str] = []

    def finish_each() -> None:
        with api.caller("php") as php:
            while not is_over.is_set():
                claim = php.post("/jobs/claim", json={"queues": [queue]})
                if claim.status_code == 200:
                    done = php.post(f"/jobs/{claim.json()['id']}/complete", json=ending(claim.json()))
                    assert done.status_code == 200, done.text
                    finished.append(claim.json()["id"])

    worker = threading.Thread(target=finish_each)
    worker.start()
    body = {"type": "thumb", "queue": queue, "unique_key": queue}
    answers = [api.shop.post("/jobs", json=body) for _ in range(times)]
    is_over.set()
    worker.join()

    assert {answer.status_code for answer in answers} <= {200, 201}
    made = [answer.json()["id"] for answer in answers if answer.status_code == 201]
    assert len(made) == len(set(made)) >= 2
    assert set(finished) <= set(made)
    assert len(finished) == len(set(finished))


def test_a_heartbeat_of_a_job_that_was_purged_makes_no_ghost(api: Api, queue: str) -> None:
    job = api.enqueue(queue)
    claim = api.claim(queue)
    done = api.php.post(f"/jobs/{job['id']}/complete", json=ending(claim))
    assert done.status_code == 200
    assert api.store().purge(queue, statuses=frozenset({Status.COMPLETED})) == 1

    for word, more in (("heartbeat", {"progress": 0.5}), ("complete", {}), ("fail", {"error": "x"})):
        assert api.php.post(f"/jobs/{job['id']}/{word}", json=ending(claim, **more)).status_code in (404, 409), word

    assert api.root.get(f"/jobs/{job['id']}").status_code == 404
    assert not [found for found in every_job(api.store()) if found.id == job["id"] or found.queue == queue]
