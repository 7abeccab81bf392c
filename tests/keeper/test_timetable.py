"""Firing the schedule: jitter spreads the starts of one entry's jobs, and the ticks themselves stay where they are."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from pool.backends.contract import JobFilter
from pool.backends.sqlite.backend import SqliteBackend
from pool.jobs.lifecycle import Status
from pool.keeper.schedule import Timetable
from pool.settings import Config


class Slow(SqliteBackend):
    """A store whose clock a test sets."""

    at: float | None = None

    def server_now(self) -> float:
        return super().server_now() if self.at is None else self.at


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Slow]:
    store = Slow(str(tmp_path / "jobpool.db"))
    yield store
    store.close()


def fired(store: Slow, **entry: object) -> list[float]:
    """By how much the starts of twenty ticks lie after the moment in which they were enqueued."""
    config = Config.model_validate({"schedule": [{"name": "a", "type": "t", "every": 60, **entry}]})
    timetable, began = Timetable(config, store, dict), store.server_now()
    for tick in range(21):
        store.at = began + 60 * tick + 1
        timetable.fire(store.at)
    store.at = None
    jobs = [
        job
        for status in (Status.PENDING, Status.SCHEDULED)
        for job in store.jobs(JobFilter(status=status), limit=50).jobs
    ]
    return [job.run_at - job.created_at for job in jobs]


def test_jitter_starts_each_job_up_to_so_much_later(store: Slow) -> None:
    late = fired(store, jitter="10m")
    assert len(late) == 20
    assert all(0 <= seconds <= 600 for seconds in late)
    assert max(late) - min(late) > 60  # all twenty within a minute of each other: once in 10^18
    assert store.last_tick("a") is not None


def test_without_it_each_starts_at_once(store: Slow) -> None:
    assert fired(store) == [0.0] * 20
