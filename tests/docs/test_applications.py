"""Web applications that enqueue, commands in shell and PHP, and the clock: the examples, as they stand there."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.docs.pages import ROOT
from tests.docs.smtp import post_office
from tests.helpers.house import House
from tests.helpers.until import until

EXAMPLES = ROOT / "docs" / "examples"
OpenHouse = Callable[..., House]


def python(program: str, folder: Path, **environ: str) -> Any:
    """What a program of its own prints, as JSON."""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=folder, env={**os.environ, **environ},
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


# ---------------------------------------------------------------- FastAPI

ASK_FASTAPI = """
import json, warnings
warnings.simplefilter("ignore")  # of the test client's own libraries
from fastapi.testclient import TestClient
from fastapi_app import app
with TestClient(app) as client:
    answers = [client.post("/orders", json={"number": 7, "email": "a@example.org"}) for _ in range(2)]
    job = answers[0].json().get("job", "")
    print(json.dumps({"codes": [a.status_code for a in answers], "jobs": [a.json().get("job") for a in answers],
        "look": client.get(f"/jobs/{job}").json(), "stranger": client.get("/jobs/nobody").status_code}))
"""


def test_a_fastapi_application_enqueues_one_mail_for_a_repeated_request(open_house: OpenHouse) -> None:
    with post_office() as post:
        house = open_house(app="import mail", workers=1, start=False, environ={"SMTP_PORT": str(post.port)})
        house.write_module("mail", (EXAMPLES / "mail.py").read_text())
        house.start()

        said = python(ASK_FASTAPI, EXAMPLES, JOBPOOL_BACKEND__URL=house.url)

        assert said["codes"] == [202, 202]
        assert said["jobs"][0] == said["jobs"][1]
        assert said["look"]["status"] in ("pending", "running", "completed")
        assert said["stranger"] == 404
        house.wait_until(said["jobs"][0], "completed")
        assert [mail["To"] for mail in post.received] == ["a@example.org"]


def test_a_fastapi_application_says_503_when_the_store_is_away() -> None:
    program = ASK_FASTAPI.replace('client.get(f"/jobs/{job}").json()', "0").replace('"/jobs/nobody"', '"/nowhere"')

    said = python(program, EXAMPLES, JOBPOOL_BACKEND__URL="redis://127.0.0.1:1/0")

    assert said["codes"] == [503, 503]


# ---------------------------------------------------------------- Django

ASK_DJANGO = """
import json, django
django.setup()
from django.core.management import call_command
call_command("migrate", run_syncdb=True, verbosity=0)
from django.test import Client
client = Client(raise_request_exception=False)
kept, lost = client.post("/orders", {"email": "a@b.c"}), client.post("/orders", {"email": "x@b.c", "fail": "1"})
print(json.dumps({"codes": [kept.status_code, lost.status_code], "order": kept.json()["order"]}))
"""
LOOK_DJANGO = """
import json, django
django.setup()
from shop.models import Order
print(json.dumps(list(Order.objects.values_list("email", "state"))))
"""


@pytest.mark.filterwarnings("ignore")
def test_a_django_application_enqueues_on_commit_and_its_worker_sees_the_row(
    open_house: OpenHouse, tmp_path: Path
) -> None:
    folder = shutil.copytree(EXAMPLES / "django", tmp_path / "django")
    environ = {"DJANGO_SETTINGS_MODULE": "shop.settings", "SHOP_DB": str(tmp_path / "shop.db")}
    house = open_house(workers=1, start=False, environ=environ)
    text = house.config_file.read_text().replace('["tasks"]', '["shop.worker"]')
    house.config_file.write_text(text.replace(f'"{house.folder}/app"', f'"{folder}"'))

    said = python(ASK_DJANGO, folder, JOBPOOL_BACKEND__URL=house.url, **environ)
    assert said["codes"] == [202, 500]
    house.start()

    until(lambda: house.counts("orders")["completed"] == 1, "the order confirmed")
    assert python(LOOK_DJANGO, folder, **environ) == [["a@b.c", "confirmed"]]
    assert sum(house.counts("orders").values()) == 1


# ---------------------------------------------------------------- shell and PHP


@pytest.fixture
def workshop(open_house: OpenHouse, tmp_path: Path) -> House:
    """A pool in the folder of the commands."""
    shutil.copytree(EXAMPLES / "commands", tmp_path / "commands")
    house = open_house(app="", workers=1, start=False)
    commands = (EXAMPLES / "commands" / "jobpool.toml").read_text()
    text = house.config_file.read_text().replace(f'"{house.folder}/app"', f'"{tmp_path}/commands"')
    house.config_file.write_text(text.replace('["tasks"]', "[]") + commands)
    return house.start()


def test_a_shell_command_gives_its_result_and_its_errors(workshop: House, tmp_path: Path) -> None:
    fine = workshop.enqueue("disk.usage", {"folder": str(tmp_path)}, max_retries=0)
    wrong = workshop.enqueue("disk.usage", {"folder": "/nowhere"}, max_retries=0)

    assert json.loads(workshop.wait_until(fine, "completed").result or "")["kilobytes"] > 0
    assert "exit code 1" in str(workshop.wait_until(wrong, "failed").error)


@pytest.mark.skipif(shutil.which("php") is None, reason="needs php: apt-get install php-cli")
def test_a_php_command_gets_its_payload_and_gives_its_result(workshop: House) -> None:
    lines = [{"count": 2, "cents": 450}, {"count": 1, "cents": 99}]
    fine = workshop.enqueue("invoice.render", {"number": 7, "lines": lines})
    wrong = workshop.enqueue("invoice.render", {"number": 8}, max_retries=0)

    assert workshop.wait_until(fine, "completed").result == '{"number":7,"total_cents":999}'
    assert "no lines on invoice 8" in str(workshop.wait_until(wrong, "failed").error)


# ---------------------------------------------------------------- by the clock


def test_the_nightly_schedule_has_its_next_tick_and_can_be_run_by_hand(open_house: OpenHouse, tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    old.touch(), new.touch()
    os.utime(old, (0, 0))
    house = open_house(
        app=(EXAMPLES / "nightly" / "tasks.py").read_text(), workers=1, start=False, environ={"UPLOADS": str(tmp_path)}
    )
    schedule = (EXAMPLES / "nightly" / "jobpool.toml").read_text().partition("[[schedule]]")
    house.config_file.write_text(house.config_file.read_text() + "".join(schedule[1:]))
    house.start()

    listed = until(
        lambda: [e for e in house.cli_json("schedule", "list") if e["name"] == "nightly cleanup"], "the entry"
    )
    house.cli("schedule", "run", "nightly cleanup")

    assert listed[0]["next"][14:16] == "30"  # half past, in whatever zone
    until(lambda: house.counts("housekeeping")["completed"] >= 1, "the cleanup done")
    until(lambda: not old.exists(), "the old file gone")
    assert new.exists()
