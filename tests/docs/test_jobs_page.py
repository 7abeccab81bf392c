"""docs/jobs.md: its blocks run, in order, with the names that its reader's program would have."""

import sys

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


def blocks() -> list[Block]:
    found = [block for block in blocks_of(ROOT / "docs" / "jobs.md") if block.language == "python"]
    return [block for block in found if not block.tags & ELSEWHERE]


def test_the_blocks_of_the_page_about_jobs_run(desk: Desk) -> None:
    for block in blocks():
        if block.file_name:
            desk.write(block)
    with (desk.folder / "tasks.py").open("a") as tasks:
        tasks.write(SIGN_UP)
    shown = [block.text for block in blocks() if not block.file_name and "def test_" not in block.text]
    program = f"{READER}\nwith pool.testing.inline():\n    for text in {shown!r}:\n        run(text, globals())\n"

    desk.run([sys.executable, "-c", program], "docs/jobs.md")


def test_the_test_on_the_page_about_jobs_passes(desk: Desk) -> None:
    for block in blocks():
        if block.file_name:
            desk.write(block)
    with (desk.folder / "tasks.py").open("a") as tasks:
        tasks.write(SIGN_UP)
    (block,) = (block for block in blocks() if "def test_" in block.text)
    (desk.folder / "test_page.py").write_text(block.text)

    said = desk.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir=.", "test_page.py"])

    assert "1 passed" in said
