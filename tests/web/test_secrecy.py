"""A payload field that is declared secret: looked for everywhere a pool says anything, while its job fails and is told of."""

import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

import httpx
import pytest

from tests.helpers.house import House
from tests.helpers.servers import running
from tests.helpers.until import until
from tests.web.serving import free_port, token_of
from tests.web.test_callbacks import Receiver

SECRETS = ("tok-4711-SECRET", "4000-1234-5678", "tok-0815-EDITED")
PAYLOAD = {"token": SECRETS[0], "card": {"number": SECRETS[1]}}
APP = '''
import pool
from ledger import noted

@pool.job(redact=("token", "card"), max_retries=0)
@noted
def pay(token: str, card: dict[str, str], amount: int = 1) -> None:
    """Fails, and tells everybody why."""
    print(f"paying {amount} with {token}")
    pool.current().progress(0.1, f"using {card['number']}")
    raise ValueError(f"card {card['number']} was refused, token {token!r}")
'''
PAGES = ("/", "/ui/queues", "/ui/jobs", "/ui/dead", "/ui/schedule", "/ui/pools")


@dataclass
class Town:
    """A pool with everything that tells somebody something, and three failed jobs with secrets in them."""

    house: House
    receiver: Receiver
    web: httpx.Client  # no token, but signed in to the dashboard
    jobs: list[str] = field(default_factory=list)

    def api(self, name: str, path: str) -> str:
        answer = self.web.get(path, headers={"Authorization": f"Bearer {token_of(name)}"})
        assert answer.status_code == 200, (path, answer.text)
        return answer.text

    def first_of_stream(self, path: str, name: str | None = None) -> str:
        headers = {"Authorization": f"Bearer {token_of(name)}"} if name else {}
        with self.web.stream("GET", path, headers=headers) as answer:
            assert answer.status_code == 200
            return next(chunk for chunk in answer.iter_text() if "data:" in chunk)

    def page(self, path: str) -> str:
        answer = self.web.get(path)
        assert answer.status_code == 200, path
        return answer.text


@pytest.fixture(scope="module", params=["sqlite", "valkey"])
def town(request: pytest.FixtureRequest) -> Iterator[Town]:
    receiver = Receiver([200])
    hooks = receiver.serve()
    if request.param == "sqlite":
        yield from settled(receiver, None)
    else:
        with running("valkey") as server:
            yield from settled(receiver, server.url)
    hooks.shutdown()
    hooks.server_close()


def settled(receiver: Receiver, backend: str | None) -> Iterator[Town]:
    port = free_port()
    house = House(workers=2, app=APP, backend=backend)
    house.configure(workers=2, settings=settings_of(house, port))
    try:
        house.start()
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=30) as web:
            town = Town(house, receiver, web)
            until(lambda: answers(web), "the web process")
            sign_in(web)
            happen(town)
            yield town
    finally:
        print(house.log_text()[-3000:])
        house.close()


def settings_of(house: House, port: int) -> str:
    tokens = "".join(
        f'[[tokens]]\nname = "{name}"\nrole = "{role}"\nsha256 = "{hashlib.sha256(token_of(name).encode()).hexdigest()}"\n{more}\n'
        for name, role, more in (("ada", "admin", ""), ("shop", "producer", 'queues = ["*"]'))
    )
    return (
        f'[web]\nenabled = true\nlisten = "127.0.0.1:{port}"\ncallback_hosts = ["127.0.0.1"]\n'
        f'callback_private = true\ncallback_secret = "s"\n{tokens}'
        f'[[alerts]]\non = "dead_rate"\ncommand = ["sh", "-c", "{{ env; cat; }} >> {house.folder}/alerts"]\n'
        f'[log]\nlevel = "DEBUG"\nfile = "{house.folder}/jobpool.log"\n'
    )


def answers(web: httpx.Client) -> bool:
    try:
        return web.get("/healthz").status_code == 200
    except httpx.TransportError:
        return False


def sign_in(web: httpx.Client) -> None:
    csrf = re.search(r'name="csrf" value="([0-9a-f]{64})"', web.get("/ui/sign-in").text)
    assert csrf
    assert web.post("/ui/sign-in", data={"csrf": csrf[1], "token": token_of("ada")}).status_code == 303


def happen(town: Town) -> None:
    """Four jobs fail, each tells its callback; one is edited and retried, and an alert goes out."""
    order = {"type": "tasks.pay", "payload": PAYLOAD, "callback_url": town.receiver.url}
    shop = {"Authorization": f"Bearer {token_of('shop')}"}
    town.house.wait_for(lambda: "tasks.pay" in town.api("shop", "/types"), "the type over HTTP")
    town.jobs = [town.web.post("/jobs", json=order, headers=shop).json()["id"] for _ in range(4)]
    for job in town.jobs:
        town.house.wait_until(job, "failed")
    edited = json.dumps({**PAYLOAD, "token": SECRETS[2]})
    town.house.cli("dead", "retry", town.jobs[0], "--payload", edited)
    town.house.wait_for(lambda: len(town.house.runs(town.jobs[0])) == 2, "the second try")
    town.house.wait_until(town.jobs[0], "failed")
    until(lambda: len(town.receiver.got) >= 4, "the callbacks")
    alerts, log = town.house.folder / "alerts", town.house.folder / "jobpool.log"
    until(lambda: alerts.exists() and "dead_rate" in alerts.read_text(), "the alert")
    until(lambda: "card *** was refused" in log.read_text(), "the log")


def test_no_page_of_the_dashboard_shows_it(town: Town) -> None:
    paths = [*PAGES, *(f"/ui/jobs/{job}" for job in town.jobs), "/ui/jobs?status=failed&type=tasks.pay"]
    shown = {path: town.page(path) for path in paths}
    shown |= {
        f"live {path}": town.first_of_stream(f"/ui/live?page={path}") for path in (*PAGES, f"/ui/jobs/{town.jobs[0]}")
    }
    require_clean(shown)
    assert "card *** was refused" in shown["/ui/dead"]


def test_a_search_does_not_find_what_it_must_not_show(town: Town) -> None:
    """Else an admin could guess a secret letter by letter."""
    for part in ("4711-SEC", "4000-1234", "0815-ED"):
        assert not any(job in town.page(f"/ui/jobs?q={part}") for job in town.jobs)
    assert all(job in town.page("/ui/jobs?q=was+refused") for job in town.jobs)


def test_nothing_over_http_shows_it(town: Town) -> None:
    paths = ("/jobs", "/types", *(f"/jobs/{job}" for job in town.jobs))
    shown = {f"{who} {path}": town.api(who, path) for who in ("ada", "shop") for path in paths}
    shown["panel"] = town.api("ada", "/admin/queues")
    shown["OpenAPI"] = town.api("ada", "/openapi.json")
    require_clean(shown)
    assert '"token":"***"' in shown[f"shop /jobs/{town.jobs[0]}"].replace(" ", "")


def test_no_event_shows_it(town: Town) -> None:
    with town.web.stream("GET", "/events", headers={"Authorization": f"Bearer {token_of('ada')}"}) as answer:
        chunks = answer.iter_text()
        next(chunks)
        town.house.cli("dead", "retry", town.jobs[1])
        heard = ""
        while town.jobs[1] not in heard:
            heard += next(chunks)
    require_clean({"events": heard})


def test_no_callback_and_no_alert_carries_it(town: Town) -> None:
    shown = {f"callback {n}": body.decode() for n, (_, body) in enumerate(town.receiver.got)}
    shown["alert"] = (town.house.folder / "alerts").read_text()
    require_clean(shown)
    assert "dead_rate" in shown["alert"]


@pytest.mark.timeout(400)  # a process for each verb
def test_no_verb_says_it(town: Town) -> None:
    first = town.jobs[0]
    slot = town.house.job(first).attempts[0].worker.split("/")[-2].partition(".")[0]  # of one that had something to say
    verbs = [
        ("jobs", "list"), ("jobs", "list", "--json"), ("jobs", "show", first), ("jobs", "show", first, "--json"),
        ("jobs", "why", first), ("logs", first), ("logs", slot), ("dead", "list"), ("dead", "list", "--json"),
        ("dead", "groups"), ("dead", "groups", "--json"), ("dead", "show", first), ("dead", "show", first, "--json"),
        ("queues",), ("status",), ("status", "--json"), ("audit",), ("audit", "--json"), ("pools", "--json"),
        ("dead", "retry", "--type", "tasks.pay", "--dry-run"), ("doctor",),
    ]  # fmt: skip
    done = {" ".join(verb): town.house.cli(*verb, check=False) for verb in verbs}
    require_clean({verb: ended.stdout + ended.stderr for verb, ended in done.items()})
    assert "replaced" in done["audit --json"].stdout
    assert "***" in done[f"dead show {first} --json"].stdout


def test_no_log_line_and_no_number_bears_it(town: Town) -> None:
    run = town.house.folder / "run"
    written = {
        str(path): path.read_text(errors="replace") for path in (*run.glob("*.json"), town.house.folder / "jobpool.log")
    }
    shown = {**written, "status": json.dumps(town.house.status())}
    shown |= {job: str(town.house.job(job).attempts) + str(town.house.job(job).progress_note) for job in town.jobs}
    require_clean(shown)
    assert "card *** was refused" in shown[str(town.house.folder / "jobpool.log")]


def require_clean(shown: dict[str, str]) -> None:
    assert all(shown.values()), [where for where, text in shown.items() if not text]
    told = [(where, secret) for where, text in shown.items() for secret in SECRETS if secret in text]
    assert told == []
