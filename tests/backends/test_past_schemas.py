"""Stores that past versions left behind are opened, look as they did, and their jobs run."""

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from pool.backends.contract import Backend, Want
from pool.backends.redis import migrations as redis_migrations
from pool.backends.redis.backend import RedisBackend
from pool.backends.sqlite import migrations as sqlite_migrations
from pool.backends.sqlite.backend import SqliteBackend
from pool.identity import LaneId, PoolId, WorkerId
from pool.jobs.lifecycle import Status
from tests.backends.fixtures import FOLDER, HOUSE, NAMESPACE, layout, live, picture, replayed, restored
from tests.helpers.builders import Hand, departure, drain, some_pool
from tests.helpers.servers import FLAVOURS, running

AGAIN = "make the fixtures anew (python -m tests.backends.fixtures) or, once this version is released, write a migration step"
ON_SQLITE = sorted(FOLDER.glob("version_*.sql"))
ON_REDIS = sorted(FOLDER.glob("version_*_redis.json"))


CASES = [(path, "") for path in ON_SQLITE] + [(path, server) for path in ON_REDIS for server in sorted(FLAVOURS)]


@pytest.fixture(params=CASES, ids=lambda case: " ".join((case[0].stem, case[1])))
def past(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Backend, dict[str, Any]]]:
    """A store as a past version left it, opened by this one, and what was seen of it then."""
    kept_in, flavour = request.param
    if not flavour:
        path = tmp_path / "jobpool.db"
        restored(kept_in.read_text(), path)
        seen = json.loads(kept_in.with_name(f"{kept_in.stem}_sqlite.json").read_text())["seen"]
        with closing(SqliteBackend(str(path))) as store:
            yield store, seen
        return
    kept = json.loads(kept_in.read_text())
    with running(flavour) as server, server.client() as client:
        replayed(kept["commands"], client)
        with closing(RedisBackend(server.url, NAMESPACE)) as store:
            yield store, kept["seen"]


def test_every_version_up_to_this_one_has_left_a_store() -> None:
    versions = range(1, sqlite_migrations.VERSION + 1)
    assert [path.stem for path in ON_SQLITE] == [f"version_{number}" for number in versions], AGAIN
    versions = range(1, len(redis_migrations.STEPS) + 2)
    assert [path.stem for path in ON_REDIS] == [f"version_{number}_redis" for number in versions], AGAIN


def test_a_fresh_database_has_the_layout_of_the_last_one(tmp_path: Path) -> None:
    fresh, last = tmp_path / "fresh.db", tmp_path / "last.db"
    with closing(SqliteBackend(str(fresh))) as store:
        store.queues()
    restored(ON_SQLITE[-1].read_text(), last)
    assert layout(fresh) == layout(last), AGAIN


def test_a_past_store_looks_as_it_did(past: tuple[Backend, dict[str, Any]]) -> None:
    """What is seen of a job may become more, never less or other."""
    store, then = past
    now = picture(store, {name: job["id"] for name, job in then["jobs"].items()})
    for name, job in then["jobs"].items():
        assert {key: now["jobs"][name][key] for key in job} == job, f"{name}: {AGAIN}"
    assert {key: now[key] for key in then if key != "jobs"} == {key: then[key] for key in then if key != "jobs"}, AGAIN


def test_the_jobs_of_a_past_store_have_every_state(past: tuple[Backend, dict[str, Any]]) -> None:
    assert {job["status"] for job in past[1]["jobs"].values()} == {status.value for status in Status}


def test_the_jobs_of_a_past_store_run(past: tuple[Backend, dict[str, Any]]) -> None:
    """What its pool held goes back, the paused queue is resumed, and all that is due is worked off."""
    store, then = past
    for slot in range(20):
        store.recover(departure(WorkerId(PoolId(*HOUSE), slot, 1)))
    store.set_queue("mail", paused=False)
    ran = set(drain(Hand(store, LaneId(WorkerId(some_pool(), 0, 1))), Want()))
    waiting = {"scheduled", "retried"}
    never_again = {"flagged"}  # a cancel was asked for
    due = {job_id for name, job_id in live(then).items() if name not in waiting | never_again}
    assert ran >= due
    assert store.job(then["jobs"]["flagged"]["id"]).status is Status.CANCELLED
    assert {store.job(then["jobs"][name]["id"]).status for name in waiting} == {Status.SCHEDULED}
    assert sum(queue.pending + queue.running for queue in store.queues()) == 0
