"""Who gets into the dashboard and what its pages say: asked over plain HTTP, as an attacker would."""

import re
from collections.abc import Callable, Iterator
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import httpx
import pytest

import pool
from pool.backends.contract import Held, Want
from pool.identity import LaneId, PoolId, WorkerId
from pool.jobs.ids import new_job_id
from pool.jobs.job import Cause, NewJob, Outcome, Settlement
from tests.browser.conftest import PAGES
from tests.web.conftest import open_api
from tests.web.serving import Api, token_of

__all__ = ["open_api"]

EVIL = """<img src=x onerror=alert(1)>"'</script><script>alert(2)</script>{{7*7}}"""
TEMPLATES = Path(pool.__file__).parent / "web" / "dashboard"
FORMS = ("/ui/queues", "/ui/jobs", "/ui/dead", "/ui/pools", "/ui/work/stop", "/ui/sign-out")


@pytest.fixture(scope="module")
def api() -> Iterator[Api]:
    server = Api()
    yield server.start()
    server.close()


def csrf_in(html: str) -> str:
    found = re.search(r'name="csrf" value="([0-9a-f]{64})"', html)
    assert found is not None, html[:500]
    return found[1]


def sign_in(api: Api, name: str = "root", **more: str) -> httpx.Client:
    """A browser without the browser, signed in."""
    client = api.client({})
    csrf = csrf_in(client.get("/ui/sign-in").text)
    client.post("/ui/sign-in", data={"csrf": csrf, "token": token_of(name), **more})
    return client


# ---------------------------------------------------------------- who gets in


@pytest.mark.parametrize(
    "path", [*PAGES, "/ui/jobs/0190b0a0-0000-7000-8000-000000000000", "/ui/live?page=/", "/ui/find?q=x"]
)
def test_strangers_are_sent_to_the_door(api: Api, path: str) -> None:
    answer = api.stranger.get(path)
    assert answer.status_code == 303
    assert answer.headers["location"].startswith("/ui/sign-in")
    assert answer.text == ""


@pytest.mark.parametrize("name", ["shop", "php"])
def test_tokens_of_other_roles_do_not_open_it(api: Api, name: str) -> None:
    assert api.caller(name).get("/").status_code == 403
    client = sign_in(api, name)
    assert not client.cookies
    assert client.get("/").status_code == 303


@pytest.mark.parametrize("path", FORMS)
def test_no_form_is_taken_from_strangers(api: Api, path: str) -> None:
    assert api.stranger.post(path, data={"act": "pause", "queue": "mail"}).status_code == 303
    assert not any(state.paused for state in api.store().queues())


@pytest.mark.parametrize("path", FORMS)
def test_no_form_is_taken_without_its_token(api: Api, path: str) -> None:
    client = sign_in(api)
    other = csrf_in(sign_in(api).get("/ui/queues").text)
    for csrf in ("", "0" * 64, other):
        answer = client.post(path, data={"csrf": csrf, "act": "pause", "queue": "mail", "job": "x", "key": "x"})
        assert answer.status_code == 403, answer.text


def test_a_form_from_another_site_is_refused_even_with_its_token(api: Api) -> None:
    client = sign_in(api)
    csrf = csrf_in(client.get("/").text)
    for site in ("cross-site", "same-site"):
        answer = client.post(
            "/ui/queues", data={"csrf": csrf, "act": "pause", "queue": "m"}, headers={"Sec-Fetch-Site": site}
        )
        assert answer.status_code == 403


def test_the_cookie_is_no_way_into_the_api(api: Api) -> None:
    client = sign_in(api)
    assert client.get("/").status_code == 200
    assert client.get("/jobs").status_code == 401
    assert client.get("/admin/queues").status_code == 401
    assert client.post("/jobs", json={"type": "thumb", "queue": "thumbs"}).status_code == 401


@pytest.mark.parametrize(
    "cookie", ["", "x", "root", "root/9999999999/x/y", "/9999999999/x/y", "root//x/y", "root/1/x/y", "é/1/2/3"]
)
def test_made_up_cookies_open_nothing(api: Api, cookie: str) -> None:
    answer = api.stranger.get("/", headers={"Cookie": f"jobpool={cookie}".encode()})
    assert answer.status_code == 303


def test_a_cookie_that_was_changed_opens_nothing(api: Api) -> None:
    client = sign_in(api)
    (cookie,) = [cookie.value or "" for cookie in client.cookies.jar]
    name, expiry, nonce, signature = cookie.split("/")
    later = "/".join((name, str(int(expiry) + 1), nonce, signature))
    flipped = cookie[:-1] + ("0" if cookie[-1] != "0" else "1")
    for changed in (later, flipped, cookie.replace("root", "shop")):
        assert api.stranger.get("/", headers={"Cookie": f"jobpool={changed}"}).status_code == 303
    assert api.stranger.get("/", headers={"Cookie": f"jobpool={cookie}"}).status_code == 200


def test_the_cookie_is_secure_where_tls_is(open_api: Callable[..., Api]) -> None:
    api = open_api(web="behind_proxy = true")
    client = api.client({})
    csrf = csrf_in(client.get("/ui/sign-in").text)
    header = client.post("/ui/sign-in", data={"csrf": csrf, "token": token_of("root")}).headers["set-cookie"]
    assert header.startswith("__Host-jobpool=")
    assert header.endswith("; Path=/; Max-Age=43200; HttpOnly; SameSite=Strict; Secure")


@pytest.mark.parametrize(
    "to",
    ["https://evil.example/", "//evil.example/", "/\\evil.example", "/jobs", "javascript:alert(1)", "/ui/\r\nX: y"],
)
def test_signing_in_never_leads_to_another_place(api: Api, to: str) -> None:
    client = api.client({})
    csrf = csrf_in(client.get("/ui/sign-in").text)
    answer = client.post("/ui/sign-in", data={"csrf": csrf, "token": token_of("root"), "to": to})
    assert answer.headers["location"] == "/"


def test_a_session_ends_with_its_token(open_api: Callable[..., Api]) -> None:
    api = open_api()
    (cookie,) = [cookie.value for cookie in sign_in(api).cookies.jar]
    assert api.stop() == 0
    text = api.config_file.read_text()
    api.start()
    assert api.stranger.get("/", headers={"Cookie": f"jobpool={cookie}"}).status_code == 200  # outlives a restart
    assert api.stop() == 0
    api.config_file.write_text(text.replace('name = "root"', 'name = "gone"'))
    api.start()
    assert api.stranger.get("/", headers={"Cookie": f"jobpool={cookie}"}).status_code == 303


# ---------------------------------------------------------------- what pages say


def test_every_page_has_the_headers_that_keep_scripts_and_copies_out(api: Api) -> None:
    client = sign_in(api)
    for path in (*PAGES, "/ui/sign-in"):
        headers = client.get(path).headers if path != "/ui/sign-in" else api.stranger.get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy and "script-src 'self'" in policy and "unsafe" not in policy
        assert headers["cache-control"] == "no-store"
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["content-type"] == "text/html; charset=utf-8"


def store_evil_jobs(api: Api) -> list[str]:
    """Markup wherever a job can carry text: queue, type, payload, keys, error, exception, output, result, note, worker."""
    store = api.store()
    queue = f"q {EVIL}"
    lane = LaneId(WorkerId(PoolId(EVIL.replace("/", "|"), "host", "i"), 1, 1), 0)
    ids = [new_job_id() for _ in range(3)]
    payload = '{"x": "' + EVIL.replace('"', '\\"') + '"}'
    store.enqueue(
        [
            NewJob(
                id=i,
                type=f"t {EVIL}",
                queue=queue,
                payload=payload,
                idempotency_key=f"{EVIL} {i}",
                unique_key=f"{EVIL}{i}",
                max_retries=0,
            )
            for i in ids
        ]
    )
    for request, outcome in ((1, Outcome.FAILED), (3, Outcome.COMPLETED)):
        claim = store.exchange(lane, request, want=Want(queues=(queue,))).claim
        assert claim is not None
        cause = Cause(exception=EVIL, text=EVIL, stack=EVIL) if outcome is Outcome.FAILED else None
        settlement = Settlement(
            job_id=claim.job_id, claim=claim.claim, outcome=outcome, cause=cause, output=EVIL, started_at=1.0,
            result='{"y": "' + EVIL.replace('"', '\\"') + '"}' if cause is None else None,
        )  # fmt: skip
        store.exchange(lane, request + 1, settlement=settlement)
    held = store.exchange(lane, 5, want=Want(queues=(queue,))).claim
    assert held is not None
    store.report(Held(lane, held.job_id, held.claim), progress=0.5, note=EVIL)
    store.close()
    return ids


def addresses_in(html: str) -> set[str]:
    found = {unescape(address) for address in re.findall(r'href="([^"]*)"', html)}
    return {address for address in found if address == "/" or address.startswith("/ui/")}


class Tags(HTMLParser):
    """Notes elements and attributes that would run something or load it from elsewhere."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        source = given.get("src") or ""
        is_foreign = tag in ("script", "img", "iframe", "object", "embed") and not source.startswith("/ui/assets/")
        if is_foreign or any(name.startswith("on") or name == "style" for name in given):
            self.found.append(f"{tag} {given}")
        if any(
            (given.get(name) or "").strip().lower().startswith(("javascript:", "data:"))
            for name in ("href", "action", "src")
        ):
            self.found.append(f"{tag} {given}")


def tags_that_act(html: str) -> list[str]:
    tags = Tags()
    tags.feed(html)
    return tags.found


def test_markup_in_jobs_is_shown_and_never_run(api: Api) -> None:
    ids = store_evil_jobs(api)
    client = sign_in(api)
    seen: set[str] = set()
    waiting = {
        *PAGES,
        *(f"/ui/jobs/{job}" for job in ids),
        "/ui/jobs?q=%3Cimg",
        "/ui/dead?q=" + EVIL,
        f"/?said={EVIL}",
        f"/ui/jobs/{EVIL}",
    }
    while waiting:
        path = waiting.pop()
        seen.add(path)
        answer = client.get(path, follow_redirects=True)
        text = answer.text
        assert "<img src=x" not in text and "<script>alert" not in text, path
        assert "{{7*7}}" in text or "49</script" not in text, path
        assert tags_that_act(text) == [], path
        if answer.headers["content-type"].startswith("text/html") and len(seen) < 80:
            waiting |= addresses_in(text) - seen
    shown = client.get(f"/ui/jobs/{ids[0]}").text
    assert shown.count("&lt;img src=x onerror=alert(1)&gt;") >= 5


def test_live_updates_are_escaped_as_the_pages_are(api: Api) -> None:
    client = sign_in(api)
    with client.stream("GET", "/ui/live", params={"page": "/ui/queues"}) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        data = next(line for line in answer.iter_lines() if line.startswith("data:"))
    assert "<table" in data.encode().decode("unicode_escape") or "<table" in data
    assert "<img src=x" not in data


def test_no_template_switches_escaping_off_and_none_has_inline_script_or_style() -> None:
    for template in TEMPLATES.rglob("*.html"):
        text = template.read_text()
        assert "|safe" not in text.replace(" ", "") and "autoescape" not in text, template
        assert not re.search(r"<script(?![^>]*\bsrc=)", text), template
        assert not re.search(r"\sstyle=|<style|\son\w+=", text), template


def test_assets_are_ours_and_name_no_other_host() -> None:
    for asset in (TEMPLATES / "assets").iterdir():
        text = asset.read_text().replace("http://www.w3.org/2000/svg", "")
        assert "http://" not in text and "https://" not in text and "url(" not in text, asset


def test_a_page_that_is_not_there_and_a_store_that_is_away_answer_in_words(api: Api) -> None:
    client = sign_in(api)
    missing = client.get("/ui/jobs/0190b0a0-0000-7000-8000-000000000000")
    assert missing.status_code == 404
    assert "it was never enqueued here" in missing.text
    assert client.get("/ui/nonsense").status_code == 404


def test_odd_queries_never_break_a_page(api: Api) -> None:
    client = sign_in(api)
    odd: list[dict[str, Any]] = [
        {"status": "nonsense"}, {"after": "nonsense"}, {"after": "é", "q": "x"}, {"searched": "-1"}, {"searched": "9" * 50},
        {"q": "\x00"}, {"q": "%' OR 1=1 --"}, {"queue": "x" * 5000}, {"type": "\ud800".encode("utf-8", "replace").decode()},
    ]  # fmt: skip
    for query in odd:
        for path in PAGES:
            assert client.get(path, params=query).status_code in (200, 404, 422), (path, query)
