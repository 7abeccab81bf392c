"""What producers and admins do: enqueue, look up, list, cancel, run again."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from pool.backends.contract import JobFilter
from pool.web.jobs import page_of
from tests.helpers.until import until
from tests.web.serving import Api, ending

JOB_FIELDS = {
    *("id", "type", "queue", "payload", "priority", "status", "retry_count"),
    *("max_retries", "idempotency_key", "run_at", "claimed_at", "worker_id", "error", "reason"),
    *("result", "progress", "attempts", "created_at", "updated_at", "started_at", "finished_at"),
}


def test_a_new_job_is_answered_with_201_and_all_its_fields(api: Api, queue: str) -> None:
    answer = api.shop.post("/jobs", json={"type": "thumb", "queue": queue, "payload": {"ä": [1, None, {"b": 1.5}]}})
    job = answer.json()
    assert answer.status_code == 201
    assert set() == JOB_FIELDS - job.keys()
    assert (job["status"], job["priority"], job["max_retries"]) == ("pending", 10, 3)
    assert job["payload"] == {"ä": [1, None, {"b": 1.5}]}
    assert job["created_at"].endswith("Z")
    assert api.shop.get(f"/jobs/{job['id']}").json()["payload"] == job["payload"]


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ({"type": ""}, "type"),
        ({}, "type"),
        ({"type": "thumb", "payload": []}, "payload"),
        ({"type": "thumb", "payload": "x"}, "payload"),
        ({"type": "thumb", "priority": "urgent"}, "priority"),
        ({"type": "thumb", "priority": 101}, "priority"),
        ({"type": "thumb", "priority": 1.5}, "priority"),
        ({"type": "thumb", "priority": True}, "priority"),
        ({"type": "thumb", "max_retries": 101}, "max_retries"),
        ({"type": "thumb", "max_retries": "3"}, "max_retries"),
        ({"type": "thumb", "delay": -1}, "delay"),
        ({"type": "thumb", "delay": 1, "run_at": "2030-01-01T00:00:00Z"}, "run_at"),
        ({"type": "thumb", "run_at": "2030-01-01T00:00:00"}, "time zone"),
        ({"type": "thumb", "run_at": "tomorrow"}, "run_at"),
        ({"type": "thumb", "expires_in": 0}, "expires_in"),
        ({"type": "thumb", "queue": "a,b"}, "queue"),
        ({"type": "thumb", "queue": "*"}, "queue"),
        ({"type": "thumb", "prioritty": 1}, "prioritty"),
        ({"type": "thumb", "owner": "rival"}, "owner"),
        ({"type": "thumb", "id": "x"}, "id"),
        ({"type": "mail.send"}, "to"),
        ({"type": "mail.send", "payload": {"to": 5}}, "to"),
        ({"type": "mail.send", "payload": {"to": "a", "cc": "b"}}, "cc"),
    ],
    ids=str,
)
def test_what_can_never_be_is_refused_with_a_sentence(sqlite_api: Api, fields: dict[str, Any], word: str) -> None:
    answer = sqlite_api.boss.post("/jobs", json=fields)
    problem = answer.json()
    assert (answer.status_code, problem["status"]) == (422, 422)
    assert answer.headers["content-type"] == "application/problem+json"
    assert word in problem["detail"]


@pytest.mark.parametrize("raw", [b"", b"{", b"nul", b"[]", b'{"type": "thumb", "payload": {"a": NaN}}', b"\xff", b"5"])
def test_what_is_no_json_object_is_422(sqlite_api: Api, raw: bytes) -> None:
    answer = sqlite_api.shop.post("/jobs", content=raw, headers={"Content-Type": "application/json"})
    assert answer.status_code == 422


def test_other_media_types_are_415(sqlite_api: Api) -> None:
    """A form is what a foreign page can make a browser send."""
    for kind in ("application/x-www-form-urlencoded", "text/plain", "multipart/form-data"):
        answer = sqlite_api.shop.post("/jobs", content=b'{"type": "thumb"}', headers={"Content-Type": kind})
        assert answer.status_code == 415


def test_priorities_are_labels_of_any_case_or_numbers(api: Api, queue: str) -> None:
    for asked, number in (("low", 0), ("Medium", 10), ("HIGH", 20), ("critical", 30), (55, 55)):
        job = api.boss.post("/jobs", json={"type": "thumb", "queue": queue, "priority": asked}).json()
        assert job["priority"] == number
    order = [api.claim(queue)["priority"] for _ in range(5)]
    assert order == [55, 30, 20, 10, 0]


def test_delayed_jobs_wait_and_are_started_when_due(api: Api, queue: str) -> None:
    job = api.enqueue(queue, delay=3.0)
    assert job["status"] == "scheduled"
    assert api.php.post("/jobs/claim", json={"queues": [queue]}).status_code == 204
    assert api.claim(queue, wait=30)["id"] == job["id"]
    at = api.enqueue(queue, run_at="2040-01-31T18:30:00+01:00")
    assert at["run_at"] == "2040-01-31T17:30:00.000Z"


def test_a_batch_enters_whole_in_order_or_not_at_all(api: Api, queue: str) -> None:
    items = [{"type": "thumb", "queue": queue, "payload": {"n": n}} for n in range(500)]
    answer = api.shop.post("/jobs/batch", json={"jobs": items})
    ids = answer.json()["ids"]
    assert (answer.status_code, len(set(ids))) == (201, 500)
    assert api.look(ids[77])["payload"] == {"n": 77}
    assert api.claim(queue)["id"] == ids[0]
    before = api.root.get("/admin/queues").json()["stats"]["enqueued"]
    assert api.shop.post("/jobs/batch", json=[*items, {"type": "nothing"}]).status_code == 422
    assert api.shop.post("/jobs/batch", json=[]).json() == {"ids": [], "jobs": []}
    assert api.root.get("/admin/queues").json()["stats"]["enqueued"] == before


def test_a_full_queue_is_429_with_retry_after(api: Api, queue: str) -> None:
    for _ in range(3):
        api.enqueue(queue)
    answer = api.shop.post("/jobs/batch", json={"jobs": [{"type": "thumb", "queue": queue}], "refuse_above": 2})
    assert answer.status_code == 429
    assert int(answer.headers["Retry-After"]) > 0
    api.store().set_queue(queue, max_pending=3)
    answer = api.shop.post("/jobs", json={"type": "thumb", "queue": queue})
    assert (answer.status_code, answer.json()["type"]) == (429, "urn:jobpool:queue-full")


def test_more_than_ten_thousand_jobs_are_too_many(sqlite_api: Api) -> None:
    assert sqlite_api.shop.post("/jobs/batch", json=[{"type": "thumb"}] * 10_001).status_code == 422


def test_lists_are_newest_first_filtered_and_paged(api: Api, queue: str) -> None:
    ids = [api.enqueue(queue)["id"] for _ in range(5)]
    api.claim(queue)
    first = api.shop.get("/jobs", params={"queue": queue, "limit": 3}).json()
    rest = api.shop.get("/jobs", params={"queue": queue, "limit": 3, "after": first["after"]}).json()
    assert [job["id"] for job in first["jobs"] + rest["jobs"]] == ids[::-1]
    assert rest["after"] is None
    assert not first["partial"] and not rest["partial"]
    running = api.root.get("/jobs", params={"queue": queue, "status": "running"}).json()["jobs"]
    assert [job["id"] for job in running] == ids[:1]
    for wrong in ({"limit": 0}, {"limit": 501}, {"status": "nowhere"}, {"after": "x"}, {"owner": "rival"}):
        assert api.shop.get("/jobs", params={**wrong, "queue": queue}).status_code == 422, wrong


def test_a_look_among_very_many_ends_in_time_and_its_cursor_leads_to_the_end(api: Api, queue: str) -> None:
    """Jobs of another owner lie above one's own: a page may be empty, but it says so and where to go on."""
    mine = api.enqueue(queue)["id"]
    others = [{"type": "thumb", "queue": queue}] * 5000
    assert api.rival.post("/jobs/batch", json=others, timeout=60).status_code == 201
    which = JobFilter(owner="shop", queue=queue)

    found, looks, after = [], 0, None
    while looks == 0 or after is not None:
        page = page_of(api.store(), which, after, 50, within_s=0.0)
        found, looks, after = [*found, *page.jobs], looks + 1, page.after
    assert [job.id for job in found] == [mine]
    assert looks <= 2 + 5000 // 500

    answer = api.shop.get("/jobs", params={"queue": queue}).json()
    while not answer["jobs"]:
        assert answer["partial"]
        answer = api.shop.get("/jobs", params={"queue": queue, "after": answer["after"]}).json()
    assert [job["id"] for job in answer["jobs"]] == [mine]


def test_a_look_waits_for_the_end_of_the_job(api: Api, queue: str) -> None:
    job = api.enqueue(queue)
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(lambda: api.caller("shop").get(f"/jobs/{job['id']}", params={"wait": 30}))
        claim = api.claim(queue)
        api.php.post(f"/jobs/{job['id']}/complete", json=ending(claim, result="done"))
        assert waiting.result(30).json()["result"] == "done"
    began = time.monotonic()
    live = api.enqueue(queue)
    assert api.shop.get(f"/jobs/{live['id']}", params={"wait": 0.5}).json()["status"] == "pending"
    assert 0.5 <= time.monotonic() - began < 20
    for wrong in ("31", "-1", "x", "nan", "inf"):
        assert api.shop.get(f"/jobs/{live['id']}", params={"wait": wrong}).status_code == 422


def test_cancel_and_retry_obey_the_table_of_moves(api: Api, queue: str) -> None:
    job = api.enqueue(queue)
    assert api.root.post(f"/jobs/{job['id']}/retry").status_code == 409
    cancelled = api.shop.post(f"/jobs/{job['id']}/cancel")
    assert (cancelled.status_code, cancelled.json()["status"]) == (200, "cancelled")
    assert api.shop.post(f"/jobs/{job['id']}/cancel").status_code == 409
    assert api.php.post("/jobs/claim", json={"queues": [queue]}).status_code == 204
    assert api.root.post(f"/jobs/{job['id']}/retry").json()["status"] == "pending"
    assert api.claim(queue)["id"] == job["id"]


def test_what_follows_a_job_belongs_to_its_producer(api: Api, queue: str) -> None:
    parent = api.enqueue(queue, on_success={"type": "thumb", "queue": f"{queue}-next", "payload": {"n": 2}})
    claim = api.claim(queue)
    api.php.post(f"/jobs/{parent['id']}/complete", json=ending(claim))
    child = api.claim(f"{queue}-next")
    assert (child["parent_id"], child["payload"], child["owner"]) == (parent["id"], {"n": 2}, "shop")


def test_words_are_no_job_ids(sqlite_api: Api) -> None:
    for path in ("/jobs/claim", "/jobs/batch"):
        answer = sqlite_api.shop.get(path)
        assert (answer.status_code, answer.headers["Allow"]) == (405, "POST")


def test_known_types_come_with_their_schema(sqlite_api: Api) -> None:
    for who in (sqlite_api.shop, sqlite_api.php, sqlite_api.root):
        types = {known["name"]: known for known in who.get("/types").json()["types"]}
        assert types["mail.send"]["queue"] == "mail"
        assert types["mail.send"]["schema"]["required"] == ["to"]


def test_the_panel_shows_what_the_store_holds(api: Api, queue: str) -> None:
    api.enqueue(queue)
    api.enqueue(queue, delay=500)
    api.enqueue(queue, max_retries=0)
    claim = api.claim(queue)
    api.php.post(f"/jobs/{claim['id']}/fail", json=ending(claim, error="x" * 300, fatal=True))
    answer = api.root.get("/admin/queues")
    panel = answer.json()
    assert answer.headers["Cache-Control"] == "no-store"
    assert panel["queues"][queue] == 1
    assert panel["queues"]["total"] == sum(n for name, n in panel["queues"].items() if name != "total")
    assert panel["delayed"]["total"] >= 1
    assert panel["delayed"]["next_in_s"] is not None
    last = panel["dead"]["last"][0]
    assert (last["job"], last["reason"], len(last["error"])) == (claim["id"], "fatal_error", 160)
    assert panel["stats"]["dead"] >= 1
    assert len(panel["stats"]["last_24h"]) == 24
    assert panel["backend"]["kind"] == ("sqlite" if api.url.startswith("sqlite") else "redis")


def test_fields_that_a_type_hides_are_shown_to_its_worker_only(open_api: Callable[..., Api]) -> None:
    api = open_api(settings='[[types]]\nname = "pay"\nqueue = "pay"\nredact = ["card"]\nmax_running = 5\n')
    job = api.shop.post("/jobs", json={"type": "pay", "payload": {"card": "4111", "sum": 5}}).json()
    assert job["payload"] == {"card": "***", "sum": 5}
    assert api.look(job["id"])["payload"] == {"card": "***", "sum": 5}
    assert api.root.get("/jobs", params={"type": "pay"}).json()["jobs"][0]["payload"]["card"] == "***"
    assert api.claim("pay")["payload"] == {"card": "4111", "sum": 5}
    assert api.store().job(job["id"]).limit_key == "pay"


def test_a_queue_of_the_configuration_has_its_limit_without_a_pool(open_api: Callable[..., Api]) -> None:
    api = open_api(settings='[[queues]]\nname = "small"\nmax_pending = 1\n')
    answers: set[int] = set()

    def is_full() -> bool:
        answers.add(api.shop.post("/jobs", json={"type": "thumb", "queue": "small"}).status_code)
        return 429 in answers

    until(is_full, "a full queue")
    assert answers == {201, 429}
