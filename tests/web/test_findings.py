"""The security findings V-01 to V-10, each as the attack. What blocks it stands in docs/security.md."""

import json
import re
from typing import Any

import pytest

from tests.web.serving import Api, ending, token_of

NOBODY = "00000000-0000-7000-8000-000000000000"
ROUTES = [
    ("POST", "/jobs", {"shop", "rival", "narrow", "boss"}),
    ("POST", "/jobs/batch", {"shop", "rival", "narrow", "boss"}),
    ("GET", "/jobs", {"shop", "root"}),
    ("GET", f"/jobs/{NOBODY}", {"shop", "root"}),
    ("POST", "/jobs/claim", {"php", "node"}),
    ("POST", f"/jobs/{NOBODY}/complete", {"php"}),
    ("POST", f"/jobs/{NOBODY}/fail", {"php"}),
    ("POST", f"/jobs/{NOBODY}/heartbeat", {"php"}),
    ("POST", f"/jobs/{NOBODY}/cancel", {"shop", "root"}),
    ("POST", f"/jobs/{NOBODY}/retry", {"root"}),
    ("GET", "/types", {"shop", "php", "root"}),
    ("GET", "/admin/queues", {"root"}),
]


@pytest.mark.parametrize(("method", "path", "allowed"), ROUTES)
def test_v01_a_token_of_another_role_is_refused_everywhere(
    sqlite_api: Api, method: str, path: str, allowed: set[str]
) -> None:
    for name in ("shop", "php", "root"):
        status = sqlite_api.caller(name).request(method, path).status_code
        assert (status == 403) == (name not in allowed), (name, status)


@pytest.mark.parametrize(("method", "path", "allowed"), ROUTES)
def test_v01_no_token_and_wrong_tokens_open_nothing(sqlite_api: Api, method: str, path: str, allowed: set[str]) -> None:
    good = token_of("root")
    for headers in ({}, {"Authorization": "Bearer wrong"}):
        answer = sqlite_api.client(headers).request(method, path, params={"token": good, "access_token": good})
        assert answer.status_code == 401, headers
        assert answer.headers["content-type"] == "application/problem+json"


def test_v01_a_good_token_in_the_wrong_place_opens_nothing(sqlite_api: Api) -> None:
    good = token_of("root")
    places: list[list[tuple[str, str]]] = [
        [("Authorization", f"Basic {good}")],
        [("Authorization", good)],
        [("Authorization", "Bearer")],
        [("Authorization", f"Bearer {good}"), ("Authorization", f"Bearer {good}")],
        [("Cookie", f"token={good}")],
        [("X-Api-Key", good)],
    ]
    for headers in places:
        assert sqlite_api.stranger.get("/jobs", headers=headers).status_code == 401, headers
    assert sqlite_api.stranger.get("/jobs", headers={"Authorization": f"bearer {good}"}).status_code == 200
    assert sqlite_api.root.get("/admin/queues").json()["web"]["failed_sign_ins"] > 0


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"])
def test_v01_odd_paths_and_methods_open_nothing(sqlite_api: Api, method: str) -> None:
    for path in (
        "/jobs/",
        "//jobs",
        "/JOBS",
        "/%2e%2e/jobs",
        "/jobs/%2e%2e/jobs",
        "/admin",
        "/docs",
        "/healthz/../jobs",
    ):
        request = sqlite_api.stranger.build_request(method, sqlite_api.address + path)
        assert sqlite_api.stranger.send(request).status_code == 401, path
    assert sqlite_api.stranger.request(method, "/healthz").status_code in (200, 405)


def test_v02_only_types_of_the_allowlist_enter(api: Api, queue: str) -> None:
    for name in ("os.system", "subprocess.run", "jobpool.webhook", "thumb2", "THUMB", "thumb;x", "mail.send\u0000"):
        answer = api.shop.post("/jobs", json={"type": name, "queue": queue})
        assert answer.status_code == 422, name
    batch = [{"type": "thumb", "queue": queue}, {"type": "os.system", "queue": queue}]
    assert api.shop.post("/jobs/batch", json=batch).status_code == 422
    followed = {"type": "thumb", "queue": queue, "on_success": {"type": "os.system"}}
    assert api.shop.post("/jobs", json=followed).status_code == 422
    assert api.php.post("/jobs/claim", json={"queues": [queue]}).status_code == 204, "nothing of it was stored"


def test_v02_a_token_with_types_of_its_own_may_use_no_others(sqlite_api: Api) -> None:
    answer = sqlite_api.narrow.post("/jobs", json={"type": "mail.send", "payload": {"to": "x"}})
    assert answer.status_code == 403
    unknown = sqlite_api.narrow.post("/jobs", json={"type": "nothing"})
    assert "mail.send" not in unknown.text, "it does not even learn of them"
    assert [known["name"] for known in sqlite_api.narrow.get("/types").json()["types"]] == ["thumb"]


WAYS_TO_ASK_FOR_MORE: list[dict[str, Any]] = [
    {"priority": "critical"},
    {"priority": "CRITICAL"},
    {"priority": 11},
    {"priority": 100},
    {"on_success": {"type": "thumb", "priority": 11}},
    {"on_failure": {"type": "thumb", "priority": "high"}},
]


@pytest.mark.parametrize("asked", WAYS_TO_ASK_FOR_MORE, ids=json.dumps)
def test_v03_no_way_in_lets_a_producer_above_its_priority(api: Api, queue: str, asked: dict[str, Any]) -> None:
    job = {"type": "thumb", "queue": queue, **asked}
    assert api.shop.post("/jobs", json=job).status_code == 403
    assert api.shop.post("/jobs/batch", json=[{"type": "thumb", "queue": queue}, job]).status_code == 403
    assert api.shop.post("/jobs/batch", json={"jobs": [job]}).status_code == 403
    assert api.php.post("/jobs/claim", json={"queues": [queue]}).status_code == 204
    assert api.boss.post("/jobs", json=job).status_code == 201, "one whose cap is higher may"


@pytest.mark.parametrize(
    "asked", [{"queue": "mail"}, {"on_success": {"type": "thumb", "queue": "mail"}}], ids=json.dumps
)
def test_v03_a_producer_uses_its_own_queues_only(sqlite_api: Api, asked: dict[str, Any]) -> None:
    assert sqlite_api.narrow.post("/jobs", json={"type": "thumb", **asked}).status_code == 403
    assert sqlite_api.narrow.post("/jobs/batch", json=[{"type": "thumb", **asked}]).status_code == 403


def test_v03_only_an_admin_runs_a_job_again_or_edits_it(api: Api, queue: str) -> None:
    job = api.enqueue(queue)
    assert api.shop.post(f"/jobs/{job['id']}/cancel").status_code == 200
    assert api.shop.post(f"/jobs/{job['id']}/retry", json={"payload": {"x": 1}}).status_code == 403
    again = api.root.post(f"/jobs/{job['id']}/retry", json={"payload": {"x": 1}})
    assert (again.status_code, again.json()["payload"], again.json()["priority"]) == (200, {"x": 1}, 10)


def test_v04_a_worker_cannot_say_who_it_is(api: Api, queue: str) -> None:
    api.enqueue(queue)
    for lie in ({"worker_id": "http@node"}, {"holder": "node"}, {"worker": "house@host#1/1.1/0"}):
        assert api.php.post("/jobs/claim", json={"queues": [queue], **lie}).status_code == 422
    api.php.headers["X-Worker-Id"] = "node"
    claim = api.claim(queue)
    assert claim["worker_id"] == "http@php"
    assert api.look(claim["id"])["worker_id"] == "http@php"


def test_v05_only_the_holder_ends_a_job(api: Api, queue: str) -> None:
    api.enqueue(queue)
    api.enqueue(queue)
    claim, other = api.claim(queue), api.claim(queue)
    good = claim["claim_token"]
    forged = [other["claim_token"], "x", "é", good[:-1], good + "A", good.swapcase(), "A" * len(good), good * 4]
    for word, more in (("complete", {}), ("fail", {"error": "x"}), ("heartbeat", {})):
        path = f"/jobs/{claim['id']}/{word}"
        assert api.node.post(path, json=ending(claim, **more)).status_code == 409, "another worker with the right token"
        for token in forged:
            assert api.php.post(path, json={"claim_token": token, **more}).status_code == 409, token
        assert api.php.post(path, json=more).status_code == 422
    assert api.look(claim["id"])["status"] == "running"
    assert api.php.post(f"/jobs/{claim['id']}/complete", json=ending(claim)).status_code == 200


def test_v05_nobody_else_is_shown_the_secret_of_a_claim(api: Api, queue: str) -> None:
    api.enqueue(queue)
    claim = api.claim(queue)
    for who in (api.shop, api.root):
        text = who.get(f"/jobs/{claim['id']}").text + who.get("/jobs").text
        assert claim["claim_token"] not in text
        assert "#claims" not in text
    api.php.post(f"/jobs/{claim['id']}/complete", json=ending(claim))
    assert "#claims" not in api.root.get(f"/jobs/{claim['id']}").text


def test_v07_payloads_have_a_limit_to_the_byte(api: Api, queue: str) -> None:
    empty = len('{"a":""}')
    for size, status in ((65_536, 201), (65_537, 422)):
        answer = api.shop.post("/jobs", json={"type": "thumb", "queue": queue, "payload": {"a": "x" * (size - empty)}})
        assert answer.status_code == status, size
    wide = {"a": "é" * 40_000}  # 80,008 bytes in UTF-8, 40,008 characters
    assert api.shop.post("/jobs", json={"type": "thumb", "queue": queue, "payload": wide}).status_code == 422
    too_long = {"type": "thumb", "queue": queue, "payload": {"a": "x" * 70_000}}
    assert api.shop.post("/jobs/batch", json=[too_long]).status_code == 422
    assert api.shop.post("/jobs", json={"type": "thumb", "on_success": too_long}).status_code == 422


HOSTILE = [
    "'; DROP TABLE jobs; --",
    '" OR 1=1 --',
    "x' OR '1'='1",
    "') UNION SELECT name FROM names --",
    "%",
    "_",
    "\\",
    "{jobpool:default}",
    "*",
    "\r\nFLUSHALL\r\n",
    "\u0000",
    "../../etc/passwd",
    "1; redis.call('FLUSHALL')",
]


@pytest.mark.parametrize("text", HOSTILE, ids=repr)
def test_v08_hostile_texts_are_values_and_nothing_more(api: Api, queue: str, text: str) -> None:
    kept = api.enqueue(queue, payload={"a": text, text: "b"})
    for field in ("idempotency_key", "unique_key", "type", "queue"):
        status = api.shop.post("/jobs", json={"type": "thumb", "queue": queue, field: text}).status_code
        assert status in (201, 422), field
    for name in ("type", "queue", "after", "status"):
        assert api.root.get("/jobs", params={name: text}).status_code in (200, 422), name
    for word in ("", "/cancel", "/retry"):
        method = "POST" if word else "GET"
        path = f"/jobs/{re.sub('[^!-~]|[/?#%]', lambda c: f'%{ord(c[0]):02X}', text)}{word}"
        assert api.root.request(method, path).status_code in (404, 422), path
    seen = api.look(kept["id"])
    assert seen["payload"] == {"a": text, text: "b"}
    assert seen["status"] == "pending"


def test_v09_an_idempotency_key_says_nothing_to_another_producer(api: Api, queue: str) -> None:
    job = {"type": "thumb", "queue": queue, "payload": {"n": 1}}
    mine = api.shop.post("/jobs", json=job, headers={"Idempotency-Key": queue})
    theirs = api.rival.post("/jobs", json=job, headers={"Idempotency-Key": queue})
    assert (mine.status_code, theirs.status_code) == (201, 201)
    assert mine.json()["id"] != theirs.json()["id"]
    again = api.shop.post("/jobs", json={**job, "idempotency_key": queue})
    assert (again.status_code, again.json()["id"], again.json()["replayed"]) == (200, mine.json()["id"], True)
    other = api.shop.post("/jobs", json={**job, "payload": {"n": 2}, "idempotency_key": queue})
    assert other.json()["payload_differs"] is True
    unique = {**job, "unique_key": queue}
    assert api.shop.post("/jobs", json=unique).status_code == 201
    assert api.rival.post("/jobs", json=unique).status_code == 201, "unique keys are kept apart as well"
    assert api.shop.post("/jobs", json=unique).status_code == 200


def test_v09_a_producer_sees_its_own_jobs_only(api: Api, queue: str) -> None:
    job = api.enqueue(queue)
    for method, path in (("GET", ""), ("POST", "/cancel")):
        missing = api.rival.request(method, f"/jobs/{NOBODY}{path}")
        foreign = api.rival.request(method, f"/jobs/{job['id']}{path}")
        assert foreign.status_code == missing.status_code == 404
        assert foreign.text.replace(job["id"], NOBODY) == missing.text, "not to be told from one that is not there"
    assert api.rival.get("/jobs", params={"queue": queue}).json()["jobs"] == []
    assert [each["id"] for each in api.shop.get("/jobs", params={"queue": queue}).json()["jobs"]] == [job["id"]]


def test_v10_error_texts_are_cleaned_before_they_are_stored(api: Api, queue: str) -> None:
    secret = (
        "cannot reach redis://app:hunter2@10.0.0.5/0 with Bearer abcdef0123456789 api_key=sk123 in /srv/app/x/job.php"
    )
    api.enqueue(queue, max_retries=0)
    claim = api.claim(queue)
    api.php.post(f"/jobs/{claim['id']}/heartbeat", json=ending(claim, note=secret))
    answer = api.php.post(f"/jobs/{claim['id']}/fail", json=ending(claim, error=secret, exception="RuntimeError"))
    assert answer.status_code == 200
    stored = api.store().job(claim["id"])
    for leak in ("hunter2", "abcdef0123456789", "sk123", "/srv/app"):
        assert leak not in repr(stored), "not even in the store"
    seen, own = api.look(claim["id"]), api.shop.get(f"/jobs/{claim['id']}").json()
    assert "cannot reach redis://app:***@10.0.0.5" in seen["error"]
    assert (seen["exception"], seen["reason"]) == ("RuntimeError", "retries_exhausted")
    assert (own["error"], own["exception"], own["reason"]) == (None, None, "retries_exhausted")
    assert "cannot reach" not in json.dumps(own["attempts"])
    assert "hunter2" not in api.log_text()


def test_v10_no_token_reaches_the_log(sqlite_api: Api) -> None:
    sqlite_api.client({"Authorization": "Bearer attempt-7f3a"}).get("/jobs", params={"token": "attempt-7f3a"})
    sqlite_api.shop.get("/jobs")
    assert "attempt-7f3a" not in sqlite_api.log_text()
    assert token_of("shop") not in sqlite_api.log_text()
