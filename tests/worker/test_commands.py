"""`[[commands]]`: any executable is a job type."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from pool.jobs.job import Outcome
from pool.jobs.lifecycle import Reason, Status
from tests.helpers.hired import Hired, Shop
from tests.helpers.until import until


def hire(shop: Shop, script: str, *arguments: str, **keys: Any) -> Hired:
    """A worker that knows the job type `run`: this shell script."""
    file = shop.folder / "script.sh"
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)
    command = {"type": "run", "argv": [str(file), *arguments], "cwd": str(shop.folder), **keys}
    return shop.hire(shop.config({"commands": [command]}))


def put(shop: Shop, payload: dict[str, Any] | None = None, **fields: Any) -> str:
    return shop.enqueue_named("run", json.dumps(payload or {}), **fields)


def test_the_payload_comes_as_json_and_json_goes_back_as_the_result(shop: Shop) -> None:
    job = put(shop, {"name": "Zoë", "n": [1, 2]})
    hire(shop, "cat")
    over = shop.until_over(job)
    assert over.status is Status.COMPLETED
    assert json.loads(over.result or "") == {"name": "Zoë", "n": [1, 2]}


def test_fields_are_put_into_the_arguments_and_no_shell_sees_them(shop: Shop) -> None:
    evil = "$(touch hacked); `touch hacked` 'x' \"y\" && rm -rf /"
    job = put(shop, {"text": evil, "n": 5})
    hire(shop, 'printf \'["%s", "%s"]\' "$2" "$#"; printf "%s" "$1" > received', "{text}", "n={n}")
    over = shop.until_over(job)
    assert json.loads(over.result or "") == ["n=5", "2"]
    assert (shop.folder / "received").read_text() == evil
    assert not (shop.folder / "hacked").exists()


def test_text_on_standard_output_is_output_and_no_result(shop: Shop) -> None:
    job = put(shop)
    hire(shop, "echo all fine")
    over = shop.until_over(job)
    assert (over.status, over.result) == (Status.COMPLETED, None)
    assert "all fine" in over.attempts[0].output


def test_exit_75_asks_for_a_retry(shop: Shop) -> None:
    job = put(shop)
    hire(shop, "exit 75")
    waiting = shop.until_attempts(job, 1)
    assert (waiting.status, waiting.retry_count) == (Status.SCHEDULED, 1)
    assert waiting.attempts[0].outcome is Outcome.RETRIED


def test_another_exit_code_is_an_error_with_the_end_of_standard_error(shop: Shop) -> None:
    job = put(shop, max_retries=0)
    hire(shop, "echo out; echo the reason >&2; exit 3")
    over = shop.until_over(job)
    assert (over.status, over.reason) == (Status.FAILED, Reason.RETRIES_EXHAUSTED)
    assert "exit code 3: the reason" in (over.error or "")
    assert "the reason" in over.attempts[0].output


def test_a_program_that_does_not_exist_is_an_error(shop: Shop) -> None:
    job = put(shop, max_retries=0)
    shop.hire(shop.config({"commands": [{"type": "run", "argv": ["/no/such/program"]}]}))
    assert shop.until_over(job).status is Status.FAILED
    assert "FileNotFoundError" in (shop.job(job).exception or "")


def test_a_field_that_argv_names_and_the_payload_lacks_is_a_misfit(shop: Shop) -> None:
    job = put(shop)
    hire(shop, "true", "{file}")
    until(lambda: shop.job(job).misfits == 1, "a misfit")
    assert "file" in (shop.job(job).error or shop.job(job).attempts[0].cause.text or "")  # type: ignore[union-attr]


def test_at_the_timeout_the_whole_group_is_killed(shop: Shop) -> None:
    job = put(shop, max_retries=0)
    worker = hire(shop, "sleep 300 & echo $! > grandchild; echo $$ > child; wait", timeout=3.0)
    over = shop.until_over(job)
    assert over.reason is Reason.TIMEOUT
    for name in ("child", "grandchild"):
        pid = int((shop.folder / name).read_text())
        until(lambda pid=pid: is_gone(pid), f"the end of the {name}")
    assert not worker.has_ended()


def test_a_command_dies_with_its_worker(shop: Shop) -> None:
    put(shop)
    worker = hire(shop, "echo $$ > child; exec sleep 300")
    pid_file = shop.folder / "child"
    until(lambda: pid_file.exists() and pid_file.read_text().strip(), "the program")
    os.kill(worker.pid, signal.SIGKILL)
    until(lambda: is_gone(int(pid_file.read_text())), "the end of the program")


def test_more_input_than_a_pipe_holds_and_a_program_that_does_not_read(shop: Shop) -> None:
    job = put(shop, {"text": "x" * 500_000})
    hire(shop, "exit 0")
    assert shop.until_over(job).status is Status.COMPLETED


@pytest.mark.parametrize("size", [100_000, 900_000])
def test_output_larger_than_a_pipe_comes_whole(shop: Shop, size: int) -> None:
    job = put(shop)
    hire(shop, f"printf '\"'; head -c {size} /dev/zero | tr '\\0' a; printf '\"'")
    assert json.loads(shop.until_over(job).result or "") == "a" * size


def is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True
