"""A pool and its callers in Shanghai: a time means the same by Python, command line and HTTP, or is refused by all three."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone

import httpx
import pytest

from tests.faults.conftest import OpenHouse
from tests.helpers.house import House
from tests.web.serving import token_of, tokens_toml

SHANGHAI = {"TZ": "Asia/Shanghai"}
AHEAD_S = 4.0
WEB = '[web]\nenabled = true\nlisten = "web.sock"\n'
BY_PYTHON = """
import json, sys, pool
with pool.Client(sys.argv[1]) as client:
    when = json.loads(sys.argv[2])
    print(client.enqueue("tasks.quick", {}, run_at=when).job_id)
"""

Entrance = Callable[[House, str | float], str | None]


def by_python(house: House, when: str | float) -> str | None:
    words = [sys.executable, "-c", BY_PYTHON, house.url, json.dumps(when)]
    done = subprocess.run(words, env={**os.environ, **SHANGHAI}, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 or "InvalidJob" in done.stderr, done.stderr
    return done.stdout.strip() or None


def by_command(house: House, when: str | float) -> str | None:
    done = house.cli("enqueue", "tasks.quick", "--at", str(when), "--json", check=False)
    assert done.returncode in (0, 1, 2, 65), (done.returncode, done.stderr)
    return json.loads(done.stdout)["id"] if done.returncode == 0 else None


def by_http(house: House, when: str | float) -> str | None:
    answer = posted(house, when)
    assert answer.status_code in (201, 400, 422), answer.text
    return str(answer.json()["id"]) if answer.status_code == 201 else None


def posted(house: House, when: str | float) -> httpx.Response:
    with httpx.Client(transport=httpx.HTTPTransport(uds=str(house.folder / "web.sock"))) as client:
        return client.post(
            "http://pool/jobs",
            json={"type": "tasks.quick", "run_at": when},
            headers={"Authorization": f"Bearer {token_of('shop')}"},
        )


ENTRANCES: dict[str, Entrance] = {"python": by_python, "command": by_command, "http": by_http}


def written(due: datetime) -> dict[str, str | float]:
    """The same moment; the last two are no moment at all."""
    return {
        "Z": due.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "offset": due.astimezone(timezone(timedelta(hours=8))).isoformat(),
        "epoch seconds": due.timestamp(),
        "naive": due.strftime("%Y-%m-%dT%H:%M:%S"),
        "epoch milliseconds": due.timestamp() * 1000,
    }


@pytest.fixture
def house(on_each_store: OpenHouse) -> House:
    opened = on_each_store(workers=2, environ=SHANGHAI, settings=WEB + tokens_toml(), start=False)
    text = opened.config_file.read_text()
    opened.config_file.write_text(text.replace("web.sock", str(opened.folder / "web.sock")))
    opened.start()
    opened.wait_for((opened.folder / "web.sock").exists, "the web child")
    opened.wait_for(lambda: posted(opened, 1.0).status_code == 201, "types known to the web child")
    return opened


def enqueued_in_time(house: House, enqueue: Entrance) -> tuple[datetime, dict[str, str | None]]:
    """A moment, and what became of each way to write it; all were said before the moment came, however slow the machine."""
    ahead_s = AHEAD_S
    while True:
        due = (datetime.now(UTC) + timedelta(seconds=ahead_s)).replace(microsecond=0)
        jobs = {form: enqueue(house, when) for form, when in written(due).items()}
        if datetime.now(UTC) < due:
            return due, jobs
        ahead_s *= 2


@pytest.mark.timeout(400)
def test_every_clear_form_starts_at_its_moment_and_the_others_are_refused_whoever_reads_them(house: House) -> None:
    for name, enqueue in ENTRANCES.items():
        due, jobs = enqueued_in_time(house, enqueue)
        assert {form for form, job in jobs.items() if job is None} == {"naive", "epoch milliseconds"}, name
        for form, job_id in jobs.items():
            if job_id is None:
                continue
            job = house.wait_until(job_id, "completed")
            assert job.run_at == due.timestamp(), (name, form)
            assert job.started_at is not None
            assert job.started_at - due.timestamp() >= 0, (name, form)
            assert job.started_at - max(due.timestamp(), job.created_at) < 20, (name, form)
    shown = house.cli_json("jobs", "show", jobs["Z"] or "")
    assert shown["run_at"].endswith("Z")
    assert datetime.fromisoformat(shown["run_at"]) == due
