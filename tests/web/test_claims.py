"""Work over HTTP: claims, leases, heartbeats, ends; and whoever vanishes on the way."""

import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from tests.helpers.until import until
from tests.web.serving import Api, ending


def test_a_job_goes_its_way_over_http(api: Api, queue: str) -> None:
    job = api.enqueue(queue, payload={"width": 80})
    claim = api.claim(queue)
    assert (claim["id"], claim["payload"], claim["attempt"]) == (job["id"], {"width": 80}, 1)
    assert claim["lease_seconds"] == 60
    beat = api.php.post(f"/jobs/{job['id']}/heartbeat", json=ending(claim, progress=0.5, note="half"))
    assert (beat.status_code, beat.json()["progress"], beat.json()["cancel_requested"]) == (200, 0.5, False)
    done = api.php.post(f"/jobs/{job['id']}/complete", json=ending(claim, result={"bytes": 12}))
    assert (done.status_code, done.json()["status"], done.json()["result"]) == (200, "completed", {"bytes": 12})


def test_nothing_to_claim_is_204(api: Api, queue: str) -> None:
    answer = api.php.post("/jobs/claim", json={"queues": [queue]})
    assert (answer.status_code, answer.content) == (204, b"")
    assert api.php.post("/jobs/claim").status_code in (200, 204), "no body at all is fine"


def test_v06_many_workers_at_once_never_get_the_same_job(api: Api, queue: str) -> None:
    ids = api.shop.post("/jobs/batch", json=[{"type": "thumb", "queue": queue}] * 60).json()["ids"]

    def work(number: int) -> list[str]:
        with httpx.Client(base_url=api.address, headers=api.php.headers, timeout=60, trust_env=False) as line:
            mine = []
            while (answer := line.post("/jobs/claim", json={"queues": [queue]})).status_code == 200:
                mine.append(answer.json()["id"])
            return mine

    with ThreadPoolExecutor(8) as threads:
        got = [job_id for mine in threads.map(work, range(8)) for job_id in mine]
    assert Counter(got) == Counter(ids)


def test_a_claim_waits_for_a_job(api: Api, queue: str) -> None:
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(lambda: api.caller("php").post("/jobs/claim", json={"queues": [queue], "wait": 30}))
        api.enqueue("q-other")
        assert not waiting.done()
        job = api.enqueue(queue)
        assert waiting.result(30).json()["id"] == job["id"]


def test_a_claim_in_vain_waits_no_longer_than_asked(sqlite_api: Api, queue: str) -> None:
    began = time.monotonic()
    assert sqlite_api.php.post("/jobs/claim", json={"queues": [queue], "wait": 0.5}).status_code == 204
    assert time.monotonic() - began >= 0.5


def test_a_client_that_leaves_while_it_waits_gets_no_job(sqlite_api: Api, queue: str) -> None:
    with pytest.raises(httpx.ReadTimeout):
        sqlite_api.php.post("/jobs/claim", json={"queues": [queue], "wait": 30}, timeout=0.5)
    job = sqlite_api.enqueue(queue)
    claim = until(
        lambda: sqlite_api.node.post("/jobs/claim", json={"queues": [queue], "wait": 1}).content, "the job for another"
    )
    assert job["id"].encode() in claim
    assert sqlite_api.look(job["id"])["retry_count"] == 0


def test_two_claims_without_a_key_are_two_jobs(api: Api, queue: str) -> None:
    api.enqueue(queue)
    api.enqueue(queue)
    assert api.claim(queue)["id"] != api.claim(queue)["id"]


def test_a_repeated_claim_with_the_same_key_is_the_same_job(api: Api, queue: str) -> None:
    api.enqueue(queue)
    api.enqueue(queue)
    keyed = api.caller("php", **{"Idempotency-Key": f"claim-{queue}"})
    first, again = api.claim(queue, keyed), api.claim(queue, keyed)
    assert (again["id"], again["claim_token"]) == (first["id"], first["claim_token"])
    other = api.claim(queue, api.caller("node", **{"Idempotency-Key": f"claim-{queue}"}))
    assert other["id"] != first["id"], "keys belong to their token"
    assert api.php.post(f"/jobs/{first['id']}/complete", json=ending(again)).status_code == 200
    api.enqueue(queue)
    late = api.claim(queue, keyed)
    assert late["id"] == first["id"], "a late copy of the request gets its old answer, not another job"


def test_the_same_key_after_a_restart_finds_its_job(open_api: Callable[..., Api], queue: str) -> None:
    api = open_api()
    api.enqueue(queue)
    keyed = api.caller("php", **{"Idempotency-Key": "once"})
    first = api.claim(queue, keyed)
    assert api.stop() == 0
    api.start()
    assert api.claim(queue, keyed)["id"] == first["id"]
    done = api.php.post(f"/jobs/{first['id']}/complete", json=ending(first, result=1))
    assert (done.status_code, done.json()["status"]) == (200, "completed"), "tokens outlive the server"


def test_two_repeats_at_once_with_one_key_get_one_job(api: Api, queue: str) -> None:
    api.enqueue(queue)
    api.enqueue(queue)

    def claim(number: int) -> dict[str, Any]:
        return api.claim(queue, api.caller("php", **{"Idempotency-Key": f"twin-{queue}"}), wait=5)

    with ThreadPoolExecutor(4) as threads:
        claims = list(threads.map(claim, range(4)))
    assert len({each["id"] for each in claims}) == 1
    ends = [api.php.post(f"/jobs/{each['id']}/complete", json=ending(each)).status_code for each in claims]
    assert ends == [200] * 4, "each copy of the answer is good"


def test_said_twice_is_said_once(api: Api, queue: str) -> None:
    api.enqueue(queue)
    claim = api.claim(queue)
    path = f"/jobs/{claim['id']}"
    first = api.php.post(f"{path}/complete", json=ending(claim, result=1))
    again = api.php.post(f"{path}/complete", json=ending(claim, result=2))
    assert (first.status_code, again.status_code, again.json()["result"]) == (200, 200, 1)
    assert api.php.post(f"{path}/fail", json=ending(claim, error="x")).status_code == 409
    assert api.php.post(f"{path}/heartbeat", json=ending(claim)).status_code == 409
    assert len(api.look(claim["id"])["attempts"]) == 1


def test_a_failed_attempt_waits_for_its_next_try(api: Api, queue: str) -> None:
    api.enqueue(queue)
    claim = api.claim(queue)
    failed = api.php.post(f"/jobs/{claim['id']}/fail", json=ending(claim, error="no", exception="IOError")).json()
    assert (failed["status"], failed["retry_count"], failed["error"]) == ("scheduled", 1, None)
    again = api.php.post(f"/jobs/{claim['id']}/fail", json=ending(claim, error="no"))
    assert (again.status_code, again.json()["retry_count"]) == (200, 1)
    assert api.look(claim["id"])["error"] == "no"


def test_fail_follows_the_backoff_of_the_type_and_what_the_error_asks(api: Api) -> None:
    for more, low, high in (({}, 60, 61), ({"retry_after": 500}, 500, 501), ({"retry_after": "300"}, 300, 301)):
        job = api.boss.post("/jobs", json={"type": "mail.send", "payload": {"to": "a"}, "priority": 100}).json()
        claim = api.claim("mail", api.mailer)
        assert claim["id"] == job["id"]
        api.mailer.post(f"/jobs/{job['id']}/fail", json=ending(claim, error="later", **more))
        due = api.store().job(job["id"]).run_at
        failed_at = api.store().job(job["id"]).updated_at
        assert low - 0.1 <= due - failed_at <= high, more


def test_a_fatal_error_and_the_last_try_end_in_the_dead_letters(api: Api, queue: str) -> None:
    for fields, more, reason in (({}, {"fatal": True}, "fatal_error"), ({"max_retries": 0}, {}, "retries_exhausted")):
        job = api.enqueue(queue, **fields)
        claim = api.claim(queue)
        failed = api.php.post(f"/jobs/{job['id']}/fail", json=ending(claim, error="x", **more)).json()
        assert (failed["status"], failed["reason"]) == ("failed", reason)


def test_a_worker_that_vanishes_loses_its_job_after_the_lease(open_api: Callable[..., Api], queue: str) -> None:
    api = open_api(lease=3)
    job = api.enqueue(queue)
    lost = api.claim(queue)
    claim = api.claim(queue, api.node, wait=30)
    assert (claim["id"], claim["retry_count"]) == (job["id"], 0)
    for word, more in (("heartbeat", {}), ("complete", {}), ("fail", {"error": "x"})):
        assert api.php.post(f"/jobs/{job['id']}/{word}", json=ending(lost, **more)).status_code == 409
        assert api.node.post(f"/jobs/{job['id']}/heartbeat", json=ending(claim)).status_code == 200
    assert api.node.post(f"/jobs/{job['id']}/complete", json=ending(claim)).status_code == 200


def test_heartbeats_keep_a_job_beyond_its_lease(open_api: Callable[..., Api], queue: str) -> None:
    api = open_api(lease=3)  # a loaded machine may keep a heartbeat waiting for a second
    job = api.enqueue(queue)
    claim = api.claim(queue)
    end = time.monotonic() + 5
    while time.monotonic() < end:
        assert api.php.post(f"/jobs/{job['id']}/heartbeat", json=ending(claim)).status_code == 200
        threading.Event().wait(0.2)
    assert api.php.post(f"/jobs/{job['id']}/complete", json=ending(claim)).status_code == 200


def test_a_cancelled_job_tells_its_holder_to_stop(api: Api, queue: str) -> None:
    job = api.enqueue(queue)
    claim = api.claim(queue)
    asked = api.shop.post(f"/jobs/{job['id']}/cancel").json()
    assert (asked["status"], asked["cancel_requested"]) == ("running", True)
    assert api.php.post(f"/jobs/{job['id']}/heartbeat", json=ending(claim)).json()["cancel_requested"] is True
    stopped = api.php.post(f"/jobs/{job['id']}/fail", json=ending(claim, error="stopped", fatal=True)).json()
    assert (stopped["status"], stopped["reason"]) == ("cancelled", "cancelled")


def test_a_worker_serves_the_queues_of_its_token(api: Api, queue: str) -> None:
    job = api.enqueue(queue)
    assert api.mailer.post("/jobs/claim", json={"queues": [queue]}).status_code == 403
    api.boss.post("/jobs", json={"type": "mail.send", "payload": {"to": "a"}})
    mine = api.mailer.post("/jobs/claim")
    assert (mine.status_code, mine.json()["queue"]) == (200, "mail")
    assert api.look(job["id"])["status"] == "pending"


def test_queues_are_served_in_the_order_asked(api: Api, queue: str) -> None:
    low, high = api.enqueue(f"{queue}-low"), api.enqueue(f"{queue}-high")
    both = {"queues": [f"{queue}-high", f"{queue}-low"]}
    assert [api.php.post("/jobs/claim", json=both).json()["id"] for _ in range(2)] == [high["id"], low["id"]]


def test_nothing_is_left_of_claims_in_the_store(open_api: Callable[..., Api], queue: str) -> None:
    """Each claim is a lane of its own; a million of them must leave no trace."""
    import sqlite3

    api = open_api()
    for _ in range(5):
        api.enqueue(queue)
        claim = api.claim(queue)
        api.php.post(f"/jobs/{claim['id']}/complete", json=ending(claim))
        api.php.post("/jobs/claim", json={"queues": [queue]})
    with sqlite3.connect(f"{api.folder}/jobs.db") as db:
        assert db.execute("SELECT count(*) FROM lanes").fetchone() == (0,)
    db.close()
