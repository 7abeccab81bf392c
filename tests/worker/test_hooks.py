"""Hooks are called, and one that fails costs nothing."""

from pathlib import Path

import pytest

from pool.jobs.lifecycle import Status
from tests.helpers.hired import Shop


def test_hooks_are_called_in_their_order_and_all_of_them_fail_without_harm(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = shop.folder / "hooks"
    fine = shop.enqueue("add", '{"left": 1, "right": 1}', priority=30)
    failing = shop.enqueue("bad", '{"how": "base exception"}', max_retries=1)
    write_app(shop.folder, ledger)
    config = shop.config({"app": {"modules": ["hooked_app"], "path": str(shop.folder)}})

    worker = shop.hire(config)
    assert shop.until_over(fine).status is Status.COMPLETED
    assert shop.until_over(failing).status is Status.FAILED
    assert worker.stop() == 0

    around = ["enter", "leave"]
    assert ledger.read_text().split() == ["boot", *around, *around, "retry", *around, "dead", "stop"]


def write_app(folder: Path, ledger: Path) -> None:
    (folder / "hooked_app.py").write_text(
        f"""
from pool.jobs.hooks import around_job, on_dead, on_retry, on_worker_boot, on_worker_stop
import tests.worker.app

def note(word):
    with open({str(ledger)!r}, "a") as file:
        file.write(word + "\\n")

@on_worker_boot
def boot():
    note("boot")
    raise RuntimeError("broken hook")

@on_worker_stop
def stop():
    note("stop")
    raise RuntimeError("broken hook")

@around_job
def around(job):
    note("enter")
    try:
        yield
    finally:
        note("leave")
        raise RuntimeError("broken hook")

@on_retry
def retry(job, error):
    note("retry")
    raise RuntimeError("broken hook")

@on_dead
def dead(job, error):
    note("dead")
    raise SystemExit
"""
    )
