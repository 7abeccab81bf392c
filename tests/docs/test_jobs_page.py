"""docs/jobs.md: its blocks run, in order, with the names that its reader's program would have."""

import json
import re
import shutil
import subprocess
import sys

import pytest
from PIL import Image

from pool.worker.context import CurrentJob
from tests.docs.desk import Desk
from tests.docs.pages import ROOT, Block, blocks_of

ELSEWHERE = {"payment", "fragment"}  # the payment has its own tests
# What the page takes for granted. A new block that needs another name gets it here, or is tagged `fragment`.
READER = """
import ast, asyncio, inspect, sys
import pool
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from tasks import *
Session, paths = nullcontext, ["a.png", "b.png"]

def run(text, names):
    code = compile(text, "docs/jobs.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    done = eval(code, names)
    if inspect.iscoroutine(done):
        asyncio.run(done)
"""
SIGN_UP = """
def sign_up(address: str) -> None:
    send_email.enqueue(to=address, subject="Welcome", body="Hello")
"""


PAGE = ROOT / "docs" / "jobs.md"


def blocks() -> list[Block]:
    found = [block for block in blocks_of(PAGE) if block.language == "python"]
    return [block for block in found if not block.tags & ELSEWHERE]


def the_block(word: str) -> Block:
    """The one block of the page, but for those of Python, in which this word stands."""
    (found,) = (block for block in blocks_of(PAGE) if block.language != "python" and word in block.text)
    return found


@pytest.fixture
def reader(desk: Desk) -> Desk:
    """A desk with the files that the page makes."""
    for block in blocks():
        if block.file_name:
            desk.write(block)
    with (desk.folder / "tasks.py").open("a") as tasks:
        tasks.write(SIGN_UP)
    desk.environ["JOBPOOL_BACKEND__URL"] = f"sqlite:///{desk.folder}/jobs.db"
    return desk


def test_the_blocks_of_the_page_about_jobs_run(reader: Desk) -> None:
    shown = [block.text for block in blocks() if not block.file_name and "def test_" not in block.text]
    program = f"{READER}\nwith pool.testing.inline():\n    for text in {shown!r}:\n        run(text, globals())\n"

    reader.run([sys.executable, "-c", program], "docs/jobs.md")


def test_the_test_on_the_page_about_jobs_passes(reader: Desk) -> None:
    (block,) = (block for block in blocks() if "def test_" in block.text)
    (reader.folder / "test_page.py").write_text(block.text)

    said = reader.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir=.", "test_page.py"])

    assert "1 passed" in said


INSIDE = """
import pool.testing
from album import shrink
from chain import complain, download, unpack
from fetching import fetch

with pool.testing.inline() as jobs:
    shrink.enqueue(["a.png", "b.png"])
    download.options(on_failure=complain.draft("x")).enqueue("https://example.org/a")
    fetch.enqueue("https://example.org/b")
album, download, unpack, fetch = jobs.records
assert (album.result, album.progress, album.progress_note, album.checkpoint) == (2, 1.0, "b.png", "2"), album
assert (unpack.type, unpack.status) == ("chain.unpack", "completed"), unpack
assert fetch.result == "https://example.org/b", fetch
"""


def test_the_jobs_of_the_page_do_what_it_says_of_them(reader: Desk) -> None:
    reader.run([sys.executable, "-W", "error", "-c", INSIDE])


def test_the_table_about_the_job_that_runs_names_all_there_is() -> None:
    table = PAGE.read_text().partition("## Inside a job")[2].partition("## Chains")[0]
    named = set(
        re.findall(r"`(\w+)(?:\([^`]*\))?`", "\n".join(line for line in table.splitlines() if line.startswith("|")))
    )
    public = {name for name in vars(CurrentJob) if not name.startswith("_")} - {"close", "transcript"}  # for the runner

    assert public <= named, public - named


# ---------------------------------------------------------------- dead letters

REFUSED = """
import pool

@pool.job(max_retries=0)
def resize(path: str) -> None:
    raise OSError(f"{path}: no such picture")

@pool.job(max_retries=0)
def charge(amount: int) -> int:
    if amount != 10:
        raise ValueError(f"amount {amount} is not 10")
    return amount
"""


def test_the_commands_about_dead_letters_find_retry_and_discard_them(reader: Desk) -> None:
    (reader.folder / "tasks.py").write_text(REFUSED)
    work = ["jobpool", "start", "--burst", "--workers", "1", "--app", "tasks"]
    for type_, payload in (("tasks.resize", '{"path": "a.png"}'), ("tasks.charge", '{"amount": 11}')):
        reader.run(["jobpool", "enqueue", type_, payload, "--max-retries", "0"])
        reader.run(work)
    groups = json.loads(reader.run(["jobpool", "dead", "groups", "--json"]))
    reader.names = {"3f2a9c01d7": next(g["fingerprint"] for g in groups if g["type"] == "tasks.resize")}

    said = reader.follow(the_block("jobpool dead groups"))
    reader.run(work)

    assert "retried 1 of 1 jobs" in said
    assert "would have discarded 0 of 0 jobs" in said  # it failed just now
    listing = json.loads(reader.run(["jobpool", "jobs", "list", "--json"]))
    assert {job["type"]: job["status"] for job in listing} == {"tasks.resize": "failed", "tasks.charge": "completed"}


def test_every_shell_block_of_the_page_is_tried_here() -> None:
    tried = {the_block("jobpool dead groups").where, the_block("pg_dump").where}
    assert tried == {block.where for block in blocks_of(PAGE) if block.language == "sh"}


# ---------------------------------------------------------------- jobs in other languages

PG_DUMP = """#!/bin/sh
[ "$2" = away ] && exit 1
echo "-- $2" >"$4"
"""


def test_the_shell_command_of_the_page_dumps_a_database_or_asks_for_a_retry(reader: Desk) -> None:
    script = the_block("pg_dump").text.replace("/backup/", f"{reader.folder}/")
    (reader.folder / "dump.sh").write_text(script)
    (reader.folder / "bin").mkdir()
    (reader.folder / "bin" / "pg_dump").write_text(PG_DUMP)
    (reader.folder / "bin" / "pg_dump").chmod(0o755)
    reader.environ["PATH"] = f"{reader.folder}/bin:{reader.environ['PATH']}"
    (reader.folder / "jobpool.toml").write_text(the_block("db.dump").text)
    for name in ("shop", "away"):
        reader.run(["jobpool", "enqueue", "db.dump", json.dumps({"database": name})])

    reader.run(["jobpool", "start", "--burst", "--workers", "1"])

    listing = json.loads(reader.run(["jobpool", "jobs", "list", "--json"]))
    became = {job["payload"]["database"]: (job["status"], job["retry_count"]) for job in listing}
    assert became == {"shop": ("completed", 0), "away": ("scheduled", 1)}
    assert (reader.folder / "shop.sql").read_text() == "-- shop\n"


def php_has_pictures() -> bool:
    return bool(shutil.which("php")) and "gd" in subprocess.run(["php", "-m"], capture_output=True, text=True).stdout


@pytest.mark.skipif("not php_has_pictures()", reason="needs php with gd: apt-get install php-cli php-gd")
def test_the_php_command_of_the_page_makes_a_picture_small(reader: Desk) -> None:
    (reader.folder / "thumbnail.php").write_text(the_block("imagescale").text)
    (reader.folder / "jobpool.toml").write_text(the_block('thumbnail.php"]').text)
    Image.new("RGB", (640, 480)).save(reader.folder / "a.jpg")
    for name in ("a.jpg", "none.jpg"):
        reader.run(
            [
                "jobpool",
                "enqueue",
                "images.thumbnail",
                json.dumps({"path": f"{reader.folder}/{name}"}),
                "--max-retries",
                "0",
            ]
        )

    reader.run(["jobpool", "start", "--burst", "--workers", "1"])

    listing = json.loads(reader.run(["jobpool", "jobs", "list", "--json"]))
    assert sorted((job["status"], job["error"] or "") for job in listing)[0] == ("completed", "")
    assert "no such picture" in str(listing)
    with Image.open(reader.folder / "a.jpg.small.jpg") as small:
        assert small.size == (320, 240)
