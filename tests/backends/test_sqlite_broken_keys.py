"""A record that was broken so that it claims what another job holds."""

import sqlite3
from contextlib import closing
from pathlib import Path

from pool.backends.sqlite.backend import SqliteBackend
from pool.jobs.lifecycle import Reason, Status
from tests.helpers.builders import Hand, drain, put


def test_two_waiting_jobs_with_one_unique_key_do_not_stop_the_queue(tmp_path: Path) -> None:
    """Hidden from the index of keys, the first lets a second one in; its own claim would break the index."""
    path = tmp_path / "jobpool.db"
    with closing(SqliteBackend(str(path))) as store:
        first = put(store, unique_key="report")
        with closing(sqlite3.connect(path)) as db, db:
            db.execute("UPDATE jobs SET watched = x'ff'")
        second, third = put(store, unique_key="report"), put(store)
        assert second != first
        assert drain(Hand(store)) == [second, third]
        job = store.job(first)
        assert (job.status, job.reason) == (Status.FAILED, Reason.INVALID_RECORD)
