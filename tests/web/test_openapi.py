"""The OpenAPI document and what it promises, tried by schemathesis with all its checks, once per role."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.web.serving import Api, token_of


@pytest.fixture(scope="module")
def impatient() -> Iterator[Api]:
    """Its long polls end soon: generated waits would fill the time otherwise."""
    api = Api(web="long_poll = 0.2")
    yield api.start()
    api.close()


@pytest.mark.timeout(600)
@pytest.mark.parametrize("who", ["boss", "php", "root"])
def test_schemathesis_finds_nothing(impatient: Api, who: str, tmp_path: Path) -> None:
    examples = "40" if os.environ.get("JOBPOOL_FULL") else "4"
    program = Path(sys.executable).with_name("schemathesis")
    # the stream of events never ends, and a tester that reads whole answers would wait for that
    words = [str(program), "run", f"{impatient.address}/openapi.json", "--exclude-path", "/events", "--no-color"]
    words += ["-H", f"Authorization: Bearer {token_of(who)}", "--checks", "all", "--phases", "coverage,fuzzing"]
    words += ["--max-examples", examples, "--generation-deterministic", "--workers", "1"]
    done = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path, timeout=600)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert "failed by a fault of ours" not in impatient.log_text()


def test_a_stranger_reads_the_document_but_no_types(sqlite_api: Api) -> None:
    document = sqlite_api.stranger.get("/openapi.json")
    assert document.status_code == 200
    assert "mail.send" not in document.text
    assert {"/jobs", "/jobs/batch", "/jobs/claim", "/jobs/{id}", "/types", "/admin/queues", "/events"} <= set(
        document.json()["paths"]
    )


def test_the_bounds_of_a_number_are_in_the_document(sqlite_api: Api) -> None:
    schemas = sqlite_api.boss.get("/openapi.json").json()["components"]["schemas"]
    number = {"type": "integer", "minimum": 0, "maximum": 100}
    assert number in schemas["JobBody"]["properties"]["priority"]["anyOf"]
    assert number in schemas["FollowUp"]["properties"]["max_retries"]["anyOf"]
    assert {**number, "maximum": 10**12} in schemas["BatchBody"]["properties"]["refuse_above"]["anyOf"]


def test_a_caller_reads_what_it_may_use(sqlite_api: Api) -> None:
    schemas = sqlite_api.narrow.get("/openapi.json").json()["components"]["schemas"]
    assert schemas["JobBody"]["properties"]["type"]["enum"] == ["thumb"]
    schemas = sqlite_api.boss.get("/openapi.json").json()["components"]["schemas"]
    variants = {each["properties"]["type"]["const"]: each for each in schemas["JobBody"]["allOf"][-1]["anyOf"]}
    assert variants["mail.send"]["properties"]["payload"]["required"] == ["to"]
    assert "examples" in schemas["JobBody"]


def test_definitions_of_a_payload_are_found_in_the_document(open_api: Callable[..., Api]) -> None:
    schema = '{ "$ref" = "#/$defs/Mail", "$defs" = { Mail = { type = "object", required = ["to"] } } }'
    api = open_api(settings=f'[[types]]\nname = "odd/type"\nqueue = "odd"\nschema = {schema}\n')
    document = api.boss.get("/openapi.json").json()
    variants = document["components"]["schemas"]["JobBody"]["allOf"][-1]["anyOf"]
    odd = next(each for each in variants if each["properties"]["type"]["const"] == "odd/type")
    place = odd["properties"]["payload"]["$ref"].rpartition("/")[2]
    assert document["components"]["schemas"][place] == {"type": "object", "required": ["to"]}
