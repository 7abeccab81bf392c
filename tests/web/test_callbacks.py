"""Callbacks: signed, retried as jobs, and no way to reach what the operator did not list."""

import json
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from pool.settings import Config, WebSection
from pool.web.callbacks import is_private, refuse_unlisted
from pool.web.problems import Problem
from pool.web.webhooks import signature
from tests.helpers.until import until
from tests.web.serving import Api, ending

OPEN = 'callback_hosts = ["127.0.0.1"]\ncallback_private = true\ncallback_secret = "s3cret"'


@dataclass
class Receiver:
    """A web server that takes callbacks; its answers in turn, the last one for ever."""

    answers: list[int]
    got: list[tuple[dict[str, str], bytes]] = field(default_factory=list)
    url: str = ""

    def serve(self) -> ThreadingHTTPServer:
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.got.append((dict(self.headers), body))
                status = receiver.answers.pop(0) if len(receiver.answers) > 1 else receiver.answers[0]
                self.send_response(status)
                self.send_header("Content-Length", "0")
                if status == 302:
                    self.send_header("Location", f"{receiver.url}/elsewhere")
                if status == 503:
                    self.send_header("Retry-After", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{server.server_port}/hook"
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return server


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver([200])
    server = made.serve()
    yield made
    server.shutdown()
    server.server_close()


def test_a_callback_tells_of_the_end_signed_and_without_error_texts(
    open_api: Callable[..., Api], receiver: Receiver, queue: str
) -> None:
    api = open_api(web=OPEN)
    good = api.enqueue(queue, callback_url=receiver.url)
    bad = api.enqueue(queue, callback_url=receiver.url, max_retries=0)
    claim = api.claim(queue)
    api.php.post(f"/jobs/{good['id']}/complete", json=ending(claim, result=[1, 2]))
    claim = api.claim(queue)
    api.php.post(f"/jobs/{bad['id']}/fail", json=ending(claim, error="the secret reason"))
    until(lambda: len(receiver.got) == 2, "both callbacks")
    told = {json.loads(body)["job"]["id"]: json.loads(body) for _, body in receiver.got}
    assert told[good["id"]]["event"] == "job.completed"
    assert told[good["id"]]["job"]["result"] == [1, 2]
    assert told[bad["id"]]["event"] == "job.failed"
    assert told[bad["id"]]["job"]["reason"] == "retries_exhausted"
    for headers, body in receiver.got:
        moment, _, given = headers["Jobpool-Signature"].removeprefix("t=").partition(",v1=")
        assert given == signature("s3cret", int(moment), body)
        assert b"the secret reason" not in body


def test_a_callback_that_is_not_taken_is_tried_again_as_a_job(
    open_api: Callable[..., Api], receiver: Receiver, queue: str
) -> None:
    receiver.answers = [302, 200]
    api = open_api(web=OPEN)
    job = api.enqueue(queue, callback_url=receiver.url)
    api.php.post(f"/jobs/{job['id']}/complete", json=ending(api.claim(queue)))

    def callback() -> dict[str, Any]:
        return next(iter(api.root.get("/jobs", params={"type": "jobpool.webhook"}).json()["jobs"]), {})

    until(lambda: callback().get("status") == "scheduled", "a callback that waits for its next try")
    assert callback()["retry_count"] == 1
    assert len(receiver.got) == 1, "redirects are not followed"
    assert "302" in callback()["error"]
    assert callback()["owner"] == "shop"


def test_forked_workers_and_http_workers_leave_callbacks_alone(sqlite_api: Api) -> None:
    answer = sqlite_api.php.post("/jobs/claim", json={"queues": ["jobpool.webhooks"]})
    assert answer.status_code == 403
    answer = sqlite_api.boss.post("/jobs", json={"type": "thumb", "queue": "jobpool.webhooks"})
    assert answer.status_code == 403


def web(**keys: Any) -> WebSection:
    base = {"callback_hosts": ["hooks.example.org", "*.shop.example", "10.0.0.5"], "callback_secret": "s"}
    return Config.model_validate({"web": {**base, **keys}}).web


@pytest.mark.parametrize(
    "url",
    [
        "https://evil.example/x",
        "https://hooks.example.org.evil.example/",
        "https://evilshop.example/",
        "https://shop.example/",
        "http://hooks.example.org/",
        "https://user:pw@hooks.example.org/",
        "https://hooks.example.org@evil.example/",
        "https://10.0.0.5/",
        "https://[::1]/",
        "https:///path",
        "https://hooks.example.org:99999/",
        "file:///etc/passwd",
        "gopher://hooks.example.org/",
        "//hooks.example.org/",
    ],
)
def test_only_listed_hosts_over_https_are_called(url: str) -> None:
    with pytest.raises(Problem) as refused:
        refuse_unlisted(url, web())
    assert refused.value.status == 403


@pytest.mark.parametrize(
    "url", ["https://hooks.example.org/x?y=1", "https://HOOKS.example.org:8443/", "https://a.shop.example"]
)
def test_listed_hosts_are_fine(url: str) -> None:
    refuse_unlisted(url, web())


def test_callbacks_are_off_unless_set_up(sqlite_api: Api, queue: str) -> None:
    answer = sqlite_api.shop.post("/jobs", json={"type": "thumb", "queue": queue, "callback_url": "https://x.example/"})
    assert (answer.status_code, answer.json()["type"]) == (403, "urn:jobpool:callback-not-allowed")


@pytest.mark.parametrize(
    "address",
    [
        *("127.0.0.1", "10.1.2.3", "192.168.0.1", "172.16.5.5", "169.254.169.254", "100.64.0.1", "0.0.0.0"),
        *("224.0.0.1", "::1", "fe80::1%eth0", "fd00::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::"),
    ],
)
def test_addresses_that_the_internet_does_not_have_are_private(address: str) -> None:
    assert is_private(address)


@pytest.mark.parametrize("address", ["8.8.8.8", "2606:4700::1111", "::ffff:8.8.8.8", "example.org"])
def test_others_are_not(address: str) -> None:
    assert not is_private(address)


def test_a_name_that_means_a_private_address_is_not_called(monkeypatch: pytest.MonkeyPatch) -> None:
    """DNS is the attacker's: a listed name may point anywhere by the time it is called."""
    from pool.errors import GiveUp
    from pool.web.webhooks import Letter

    def resolve(*_: Any, **__: Any) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 443))]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    with pytest.raises(GiveUp, match="private"):
        Letter("https://hooks.example.org/", b"{}", "d", web()).send()
