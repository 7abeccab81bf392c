"""The small workers of docs/workers in other languages, and the curl lines of docs/http.md: run as they stand there."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.web.serving import Api, token_of

DOCS = Path(__file__).parents[2] / "docs"
WORKERS = {"php": ["php"], "sh": ["bash"], "mjs": ["node"]}
NEEDS = {"php": ("php",), "sh": ("bash", "curl", "jq"), "mjs": ("node",)}


@pytest.fixture(scope="module")
def quick() -> Iterator[Api]:
    """A server whose long polls end soon, so that a worker with nothing to do does too."""
    api = Api(web="long_poll = 0.2")
    yield api.start()
    api.close()


@pytest.mark.parametrize("kind", WORKERS)
def test_a_small_worker_does_its_jobs_and_reports_what_it_cannot(quick: Api, kind: str) -> None:
    for program in NEEDS[kind]:
        if shutil.which(program) is None:
            pytest.skip(f"no {program} on this machine")
    queue = f"work-{kind}"
    good = quick.enqueue(queue, payload={"path": "/a b/ü.jpg"})
    bad = quick.boss.post("/jobs", json={"type": "mail.send", "queue": queue, "payload": {"to": "x"}, "max_retries": 0})
    environ = {**os.environ, "JOBPOOL_URL": quick.address, "JOBPOOL_TOKEN": token_of("php")}
    environ |= {"JOBPOOL_QUEUES": queue, "JOBPOOL_ONCE": "1"}
    worker = DOCS / "workers" / f"worker.{kind}"
    done = subprocess.run([*WORKERS[kind], str(worker)], env=environ, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    finished, failed = quick.look(good["id"]), quick.look(bad.json()["id"])
    assert (finished["status"], finished["result"]["made"]) == ("completed", "/a b/ü.jpg"), finished
    assert (failed["status"], "does not know mail.send" in failed["error"]) == ("failed", True)


def test_every_route_has_a_curl_line_that_works(quick: Api, tmp_path: Path) -> None:
    """The shell blocks of docs/http.md, in order, as one script."""
    for program in ("bash", "curl", "jq"):
        if shutil.which(program) is None:
            pytest.skip(f"no {program} on this machine")
    text = (DOCS / "http.md").read_text()
    script = "\n".join(re.findall(r"```sh\n(.*?)```", text, re.DOTALL))
    environ = {**os.environ, "JOBPOOL": quick.address}
    environ |= {
        name.upper(): token_of(who) for name, who in (("producer", "boss"), ("worker", "php"), ("admin", "root"))
    }
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        env=environ,
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    routes = quick.stranger.get("/openapi.json").json()["paths"]
    for path in routes:
        shown = path.replace("{id}", "$JOB")
        assert shown in text, f"docs/http.md shows no curl for {path}"


def test_every_finding_has_a_row_and_a_test() -> None:
    text = (DOCS / "security.md").read_text()
    tests = "".join(file.read_text() for file in Path(__file__).parent.glob("test_*.py"))
    for number in range(1, 11):
        assert f"| V-{number:02d} |" in text
        assert f"def test_v{number:02d}_" in tests
    for name in re.findall(r"`(test_v\d\d_\w+)`", text):
        assert f"def {name}(" in tests, name
