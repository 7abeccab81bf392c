"""The store goes away under a worker: it waits, keeps the result in hand, and never dies of it."""

import json
import signal
from pathlib import Path

from pool.backends import spool
from pool.jobs.lifecycle import Status
from tests.helpers.hired import Hired, Shop
from tests.helpers.until import until


def holding(shop: Shop) -> tuple[str, Hired]:
    """A worker in the middle of a job."""
    payload = {"ledger": str(shop.folder / "ledger"), "gate": str(shop.folder / "gate")}
    job = shop.enqueue("held", json.dumps(payload))
    worker = shop.hire()
    worker.until_started()
    return job, worker


def take_away(shop: Shop) -> None:
    """An exclusive transaction that does not end is a store that does not answer."""
    import sqlite3

    shop.store.close()
    shop.blocker = sqlite3.connect(shop.folder / "store.db", isolation_level=None)  # type: ignore[attr-defined]
    shop.blocker.execute("BEGIN IMMEDIATE")  # type: ignore[attr-defined]


def bring_back(shop: Shop) -> None:
    shop.blocker.rollback()  # type: ignore[attr-defined]
    shop.blocker.close()  # type: ignore[attr-defined]


def test_a_result_waits_in_hand_until_the_store_is_back(shop: Shop) -> None:
    job, worker = holding(shop)
    take_away(shop)
    (shop.folder / "gate").touch()
    until(lambda: "does not answer" in worker.text(), "a complaint")
    assert not worker.has_ended()

    bring_back(shop)

    assert shop.until_over(job).status is Status.COMPLETED
    assert (shop.folder / "ledger").read_text().split() == ["start", "end"]


def test_a_call_to_the_store_stands_on_the_board_for_as_long_as_it_takes(shop: Shop) -> None:
    """Whoever is stopped in it is replaced."""
    job, worker = holding(shop)
    assert worker.process.store_call_since == 0
    take_away(shop)
    (shop.folder / "gate").touch()
    until(lambda: worker.process.store_call_since > 0, "the first call, which has 5 s", within=3)

    bring_back(shop)

    shop.until_over(job)
    until(lambda: worker.process.store_call_since == 0, "its end")


def test_told_to_stop_without_a_store_it_keeps_the_result_on_disk_for_the_next_start(shop: Shop) -> None:
    job, worker = holding(shop)
    take_away(shop)
    worker.signal(signal.SIGTERM)
    (shop.folder / "gate").touch()
    assert worker.until_ended() == 0
    assert len(list(shop.spool.glob("*.json"))) == 1

    bring_back(shop)
    assert shop.job(job).status is Status.RUNNING
    shop.hire(slot=1)

    over = shop.until_over(job)
    assert (over.status, over.result) == (Status.COMPLETED, str(worker.pid))
    until(lambda: not list(shop.spool.glob("*.json")), "an empty spool")


def test_a_kept_result_of_a_job_that_was_given_away_changes_nothing(shop: Shop) -> None:
    job, worker = holding(shop)
    take_away(shop)
    worker.signal(signal.SIGTERM)
    (shop.folder / "gate").touch()
    worker.until_ended()
    bring_back(shop)
    shop.recover(worker)
    assert shop.job(job).status is Status.PENDING

    assert spool.replay(shop.store, shop.spool) == 0

    assert shop.job(job).status is Status.PENDING


def test_a_file_in_the_spool_that_is_not_ours_is_set_aside(shop: Shop) -> None:
    folder = shop.spool
    folder.mkdir(parents=True)
    (folder / "torn.json").write_text('{"lane": "x')
    assert spool.replay(shop.store, shop.spool) == 0
    assert [path.name for path in folder.iterdir()] == ["torn.unreadable"]


def test_a_file_in_the_spool_that_cannot_be_read_holds_nothing_up(shop: Shop) -> None:
    folder = shop.spool
    (folder / "another_users.json").mkdir(parents=True)  # reading it is refused, to root too
    (folder / "torn.json").write_text('{"lane": "x')
    assert spool.replay(shop.store, shop.spool) == 0
    assert sorted(path.name for path in folder.iterdir()) == ["another_users.json", "torn.unreadable"]


def test_a_missing_store_does_not_keep_a_worker_from_becoming_ready(shop: Shop, tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir()
    (closed / "store.db").mkdir()  # a folder where the file should be
    config = shop.config({"backend": {"url": f"sqlite:///{closed}/store.db"}})
    worker = shop.hire(config)
    assert not worker.has_ended(), worker.text()
    assert worker.stop() == 0


def test_what_was_kept_for_one_store_is_not_offered_to_another(shop: Shop, tmp_path: Path) -> None:
    job, worker = holding(shop)
    take_away(shop)
    worker.signal(signal.SIGTERM)
    (shop.folder / "gate").touch()
    worker.until_ended()
    bring_back(shop)

    elsewhere = f"sqlite:///{tmp_path}/other.db"
    other = Shop(shop.folder, url=elsewhere)
    other.hire(slot=1).stop()
    other.close()

    assert spool.replay(shop.store, shop.spool) == 1
    assert shop.job(job).status is Status.COMPLETED
