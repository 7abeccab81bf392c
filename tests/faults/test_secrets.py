"""Secrets are planted everywhere a person may put one, and looked for everywhere a person, a log or a stranger may look."""

import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.faults.conftest import OpenHouse
from tests.helpers.house import APP, House
from tests.helpers.servers import Server, running
from tests.web.serving import tokens_toml

PASSWORD = "pl4nted-password-XYZ"
PLANTED = {
    "the store's password": PASSWORD,
    "a token": "token-of-root",
    "a wrong token": "pl4nted-wrong-token-XYZ",
    "a masked payload field": "pl4nted-card-XYZ",
    "the secret of a webhook": "pl4nted-webhook-XYZ",
    "the user of a webhook": "pl4nted-user-XYZ",
    "the key of callbacks": "pl4nted-callback-XYZ",
    "the environment of a command": "pl4nted-environment-XYZ",
    "a masked field of a schedule": "pl4nted-tick-XYZ",
    "a masked field of a command": "pl4nted-argument-XYZ",
}
PAYING = (
    APP
    + '''
@pool.job(max_retries=0, redact=["card"])
@noted
def pay(card: str) -> None:
    """Tells its secret wherever it can."""
    print("paying with", card)
    pool.current().progress(0.5, f"with {card}")
    raise RuntimeError(f"card {card} was refused")
'''
)
SETTINGS = f"""
[log]
level = "DEBUG"
[web]
enabled = true
listen = "WEB"
callback_hosts = ["example.org"]
callback_secret = "{PLANTED["the key of callbacks"]}"
[[alerts]]
on = "reload_failed"
url = "http://{PLANTED["the user of a webhook"]}:x@127.0.0.1:9/T0/{PLANTED["the secret of a webhook"]}"
[[commands]]
type = "command.fail"
argv = ["false", "{{secret}}"]
env = {{ API_KEY = "{PLANTED["the environment of a command"]}" }}
max_retries = 0
redact = ["secret"]
[[schedule]]
name = "pay-day"
type = "tasks.pay"
every = 2
payload = {{ card = "{PLANTED["a masked field of a schedule"]}" }}
"""
VERBS = (
    ["status"], ["status", "--json"], ["doctor"], ["check"], ["queues"], ["pools"], ["pools", "--json"], ["jobs", "list"],
    ["jobs", "list", "--json"], ["dead", "list"], ["dead", "list", "--json"], ["dead", "groups"], ["schedule", "list"],
    ["schedule", "list", "--json"], ["audit"], ["audit", "--json"], ["limits"], ["token", "list"], ["health"],
    ["--debug", "jobs", "list"], ["stack", "1"], ["metrics"],
)  # fmt: skip
PAGES = (
    "/",
    "/ui/live",
    "/jobs",
    "/queues",
    "/workers",
    "/pools",
    "/dead",
    "/schedule",
    "/audit",
    "/types",
    "/stats",
    "/openapi.json",
)


@pytest.fixture(params=["sqlite", "redis"])
def house(request: pytest.FixtureRequest, open_house: OpenHouse) -> Iterator[House]:
    with running(password=PASSWORD, aof=True) as server:
        url = server.url if request.param == "redis" else None
        opened = open_house(workers=1, app=PAYING, settings=SETTINGS + tokens_toml(), backend=url, start=False)
        text = opened.config_file.read_text()
        opened.config_file.write_text(text.replace('"WEB"', f'"{opened.folder}/web.sock"'))
        opened.config_file.chmod(0o600)
        opened.start()
        opened.wait_for((opened.folder / "web.sock").exists, "the web child")
        yield opened
        if url:
            kept = kept_by(server)
            assert found_in({"the server's file": kept}, but=MAY_BE_STORED) == []


MAY_BE_STORED = ("a masked payload field", "a masked field of a schedule", "a masked field of a command")  # payloads


def kept_by(server: Server) -> str:
    return "".join(path.read_text(errors="replace") for path in server.directory.rglob("*.aof"))


def found_in(said: dict[str, str], but: tuple[str, ...] = ()) -> list[str]:
    """Which secret stands where."""
    return [f"{name} in {place}" for place, text in said.items() for name, secret in PLANTED.items()
            if name not in but and secret in text]  # fmt: skip


def ask_by_http(house: House, path: str, token: str) -> str:
    headers = {"Authorization": f"Bearer {token}", "Accept": "text/html,application/json"}
    said, began = b"", time.monotonic()
    with (
        httpx.Client(transport=httpx.HTTPTransport(uds=str(house.folder / "web.sock")), timeout=30) as client,
        client.stream("GET", f"http://pool{path}", headers=headers) as answer,
    ):
        for part in answer.iter_bytes():
            said += part
            if time.monotonic() - began > 3:  # some never end: they tell what happens
                break
    return f"{answer.status_code} {answer.headers} {said.decode()}"


def lived_through(house: House) -> list[str]:
    """Jobs that tell what they should not, wrong callers, wrong orders; the ids of the dead."""
    card, argument = PLANTED["a masked payload field"], PLANTED["a masked field of a command"]
    dead = [house.enqueue("tasks.pay", {"card": card}), house.enqueue("command.fail", {"secret": argument})]
    for job in dead:
        house.wait_until(job, "failed")
    house.wait_for(lambda: house.counts()["failed"] > len(dead), "the schedule's own failure")
    ask_by_http(house, "/jobs", PLANTED["a wrong token"])
    ask_by_http(house, f"/jobs/{PLANTED['a wrong token']}", PLANTED["a token"])
    right = house.config_file.read_text()
    house.config_file.write_text(right + "[nonsense]\n")
    house.cli("reload", check=False)  # the webhook is told of the failure, in vain
    house.wait_for(lambda: "alert" in house.log_text(), "the word about the webhook", within=60)
    house.config_file.write_text(right)
    return dead


def test_what_is_planted_is_not_found(house: House) -> None:
    dead = lived_through(house)
    verbs = (*VERBS, *(["jobs", "show", job] for job in dead), *(["logs", job] for job in dead), ["why", dead[0]])
    said = {}
    for words in verbs:
        done = house.cli(*words, check=False)
        said[" ".join(words)] = done.stdout + done.stderr
    said |= {page: ask_by_http(house, page, PLANTED["a token"]) for page in (*PAGES, *(f"/jobs/{job}" for job in dead))}
    said["ps"] = subprocess.run(
        ["ps", "-ww", "-o", "args=", "-p", ",".join(map(str, house.pids()))], capture_output=True, text=True, check=True
    ).stdout
    said |= {f"command line of {pid}": Path(f"/proc/{pid}/cmdline").read_text() for pid in house.pids()}
    said["status"] = json.dumps(house.status())
    said["what the store knows of pools"] = str([pool.facts for pool in house.store.pools()])
    said["what the store knows of jobs"] = "".join(
        str((job.error, job.attempts, job.progress_note, job.exception, job.result)) for job in map(house.job, dead)
    )
    house.stop()
    said["the log"] = house.log_text()
    said["what is left on disk"] = "".join(
        path.read_text(errors="replace") for path in house.folder.joinpath("state").rglob("*") if path.is_file()
    )

    assert len(said["the log"]) > 1000 and "refused" in said["jobs list"] + said["dead list"]
    assert found_in(said) == []
    database = house.folder / "jobs.db"
    if database.exists():
        assert found_in({"the database": database.read_text(errors="replace")}, but=MAY_BE_STORED) == []


TYPING_ERRORS = {
    "the token in the place of its hash": ('sha256 = "', f'sha256 = "{PLANTED["a token"]}'),
    "a password in a URL of no known kind": ("[backend]\nurl = ", f'[backend]\nurl = "rediss//:{PASSWORD}@h:1/0"\n#'),
    "a number in the environment": ("API_KEY = ", f'OTHER = [1, "{PLANTED["the environment of a command"]}"], API_KEY = '),
    "a list in the place of a secret": ("callback_secret = ", f'callback_secret = ["{PLANTED["the key of callbacks"]}"]\n#'),
    "an unknown key with a secret": ("callback_secret = ", f'callback_sekret = "{PLANTED["the key of callbacks"]}"\n#'),
    "a webhook that is no URL": ("url = \"http://", f'url = ["{PLANTED["the secret of a webhook"]}"]\n#'),
}  # fmt: skip


@pytest.mark.parametrize("error", TYPING_ERRORS)
def test_a_complaint_about_the_configuration_does_not_repeat_its_secrets(open_house: OpenHouse, error: str) -> None:
    house = open_house(workers=1, app=PAYING, settings=SETTINGS + tokens_toml(), start=False)
    text = house.config_file.read_text()
    wrong = text.replace(*TYPING_ERRORS[error])
    assert wrong != text
    house.config_file.write_text(wrong)
    said = {}
    for words in (["check"], ["queues"], ["doctor"], ["--debug", "queues"]):
        done = house.cli(*words, check=False)
        said[" ".join(words)] = done.stdout + done.stderr
    house.start(wait=False)
    assert house.wait_exit() == 78
    said["the log"] = house.log_text()
    assert found_in(said) == []
