"""A short run per backend in CI, a long one before a release, and the proof that the verdict sees each kind of fault."""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from pool.jobs.job import Attempt, Job, Outcome
from pool.jobs.lifecycle import Reason, Status
from tests.chaos.accidents import drawn
from tests.chaos.run import Order, run
from tests.chaos.town import Absence
from tests.chaos.verdict import RULES, Evidence, complaints

SEED = int(os.environ.get("JOBPOOL_CHAOS_SEED", "20261130"))


@pytest.mark.serial
@pytest.mark.timeout(400)
@pytest.mark.parametrize("backend", ["sqlite", "redis"])
def test_a_stormy_minute_breaks_no_promise(backend: str, tmp_path: Path) -> None:
    report = run(Order(SEED, 25, backend), tmp_path / "town")
    print(report.text())
    assert report.wrong == []
    assert report.numbers["completed"] > 20  # how many, the machine decides


@pytest.mark.full
@pytest.mark.serial
@pytest.mark.timeout(2000)
@pytest.mark.parametrize("backend", ["sqlite", "redis", "valkey"])
@pytest.mark.parametrize("seed", range(3))
def test_stormy_minutes_break_no_promise(backend: str, seed: int, tmp_path: Path) -> None:
    report = run(Order(seed, 240, backend, pools=3), tmp_path / "town")
    print(report.text())
    assert report.wrong == []


def test_a_seed_gives_the_same_accidents_again() -> None:
    once, again = ([drawn("redis", Random(f"7 {number}")) for number in range(50)] for _ in range(2))
    assert once == again
    assert len(set(once)) > 10


# ---------------------------------------------------------------- the verdict can say no

JOB = Job(
    id="a", type="tasks.nap", queue="default", payload="{}", priority=10, status=Status.COMPLETED, retry_count=0,
    max_retries=100, kill_count=0, max_kills=3, timeout=0.0, owner="local", idempotency_key=None, unique_key=None,
    parent_id=None, run_at=100.0, expires_at=None, created_at=100.0, updated_at=100.0, claimed_at=None, started_at=None,
    finished_at=None, worker_id=None, claim=1, cancel_requested=False, reason=None, error=None, exception=None,
    result='"r1"', progress=None, progress_note=None,
)  # fmt: skip
ONCE = replace(JOB, type="tasks.once", max_retries=0)


def start(run: str = "r1", at: float = 1.0, wall: float = 101.0, **more: Any) -> dict[str, Any]:
    return {
        "what": "start",
        "job": "a",
        "run": run,
        "attempt": 1,
        "pid": 5,
        "pool": "0",
        "at": at,
        "wall": wall,
        **more,
    }


def end(run: str = "r1", at: float = 2.0, ok: bool = True) -> dict[str, Any]:
    return {"what": "end", "job": "a", "run": run, "ok": ok, "at": at}


def overlap(at: float = 10.0) -> dict[str, Any]:
    return start(at=at, what="overlap", other={"run": "r0", "pool": "1", "pid": 4})


def evidence(job: Job | None = JOB, notes: tuple[dict[str, Any], ...] = (start(), end()), **more: Any) -> Evidence:
    known = {"kind": "redis", "accepted": {"a": {"id": "a"}}, "doubtful": []}
    return Evidence(**{**known, "notes": list(notes), "jobs": {job.id: job} if job else {}, **more})


CANCELLED = [{"job": "a", "status": "cancelled", "at": 0.5}]
TWICE = tuple(Attempt(number=n, worker="w", started_at=1.0, ended_at=2.0, outcome=Outcome.COMPLETED) for n in (1, 2))
FAULTS: dict[str, Callable[[], Evidence]] = {
    "nothing_lost": lambda: evidence(None, ()),
    "batches_whole": lambda: evidence(doubtful=[["a", "b"]]),
    "one_job_for_a_key": lambda: evidence(
        jobs={"a": replace(JOB, idempotency_key="k"), "b": replace(JOB, id="b", idempotency_key="k")}
    ),
    "all_over": lambda: evidence(replace(JOB, status=Status.RUNNING)),
    "completed_jobs_ended": lambda: evidence(notes=(start(),)),
    "failures_are_the_jobs_own": lambda: evidence(replace(JOB, status=Status.FAILED, reason=Reason.WORKER_LOST)),
    "at_most_once": lambda: evidence(ONCE, (start(), start("r2"), end())),
    "unstarted_ones_not_failed": lambda: evidence(replace(ONCE, status=Status.FAILED, reason=Reason.WORKER_LOST), ()),
    "no_two_runs_at_once": lambda: evidence(notes=(start(), overlap(), end())),
    "robbed_owners_settle_nothing": lambda: evidence(replace(JOB, result='"r0"'), (start(), overlap(), end("r0"))),
    "families_are_complete": lambda: evidence(replace(JOB, type="tasks.family", payload='{"children": 2}')),
    "cancelled_jobs_rest": lambda: evidence(cancels=CANCELLED),
    "cancelled_only_by_a_person": lambda: evidence(replace(JOB, status=Status.CANCELLED, reason=Reason.CANCELLED)),
    "delays_kept": lambda: evidence(notes=(start(wall=90.0), end())),
    "one_settlement": lambda: evidence(replace(JOB, attempts=TWICE)),
    "no_run_unaccounted": lambda: evidence(None, accepted={}),
}


def test_every_rule_is_tried() -> None:
    assert [rule.__name__ for rule in RULES] == list(FAULTS)


@pytest.mark.parametrize("rule", list(FAULTS))
def test_the_verdict_sees(rule: str) -> None:
    assert rule in {complaint.partition(":")[0] for complaint in complaints(FAULTS[rule]())}


def test_an_orderly_run_has_no_complaint() -> None:
    assert complaints(evidence()) == []


def test_an_overlap_is_allowed_only_on_redis_and_after_a_lease_of_absence() -> None:
    notes = (start(), overlap(at=10.0), end())
    long, short = [Absence("1", 4.0, 11.0)], [Absence("1", 9.0, 11.0)]
    assert complaints(evidence(notes=notes, absences=long)) == []
    assert complaints(evidence(notes=notes, absences=short)) != []
    assert complaints(evidence(notes=notes, absences=long, kind="sqlite")) != []
