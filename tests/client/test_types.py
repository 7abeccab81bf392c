"""Type checkers see the job's own signature on everything that enqueues it."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import pool

PROGRAM = """
import pool
from pool.jobs.job import NewJob

@pool.job
def bare(n: int) -> str:
    return str(n)

@pool.job(queue="mail", priority="high", backoff={OSError: [1, 2]}, fatal=(ValueError,), unique_key="k:{to}")
async def mail(to: str, *, copies: int = 1) -> None: ...

good_call: str = bare(1)
receipt: pool.Receipt = bare.enqueue(1)
mail.enqueue(to="x", copies=2)
mail.enqueue_in(5, "x")
mail.enqueue_at("2026-01-01T00:00:00Z", to="x")
draft: NewJob = mail.options(priority="low", delay=3).draft("x")
pool.Client().enqueue(bare, {"n": 1}, priority=5, idempotency_key="k")
pool.Client().enqueue("a.b", {"n": 1})
pool.Client().enqueue_many([(bare, {"n": 1}), draft])

async def main() -> None:
    r: pool.Receipt = await mail.enqueue_async("x")
    await mail("x")

bare.enqueue("one")  # wrong: a string
bare.enqueue()  # wrong: missing
mail.enqueue(to="x", cc="y")  # wrong: unknown
mail.enqueue_in(5, 6)  # wrong: an int
mail.enqueue_at("2026-01-01T00:00:00Z")  # wrong: missing
mail.options(prio=1)  # wrong: unknown option
pool.Client().enqueue(bare, {"n": 1}, prio=5)  # wrong: unknown option
number: int = bare(1)  # wrong: returns a string
pool.job(queue=5)  # wrong: a queue is a string
pool.job(queu="mail")  # wrong: no such word
"""


WRONG = {number for number, line in enumerate(PROGRAM.splitlines(), 1) if "# wrong" in line}


@pytest.mark.skipif(shutil.which("pyright") is None, reason="needs pyright: pip install pyright")
def test_pyright_finds_each_wrong_call_and_no_other(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    settings = {"extraPaths": [str(Path(pool.__file__).parents[1])]}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))

    done = subprocess.run(
        ["pyright", "--outputjson", "--pythonpath", sys.executable],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=100,
    )

    found = {note["range"]["start"]["line"] + 1 for note in json.loads(done.stdout)["generalDiagnostics"]}
    assert found == WRONG, done.stdout


def test_mypy_finds_each_wrong_call_and_no_other(tmp_path: Path) -> None:
    file = tmp_path / "program.py"
    file.write_text(PROGRAM)

    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--config-file=", f"--cache-dir={tmp_path}/cache", str(file)],
        capture_output=True, text=True, timeout=600, cwd=tmp_path, env={**os.environ, "MYPYPATH": str(Path(pool.__file__).parents[1])},
    )  # fmt: skip

    found = {int(number) for number in re.findall(r"^program\.py:(\d+): error", done.stdout, re.MULTILINE)}
    assert found == WRONG, done.stdout + done.stderr
