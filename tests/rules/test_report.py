"""What `/status` and `/readyz` say of a pool in a given condition."""

import json
from typing import Any

import pytest

from pool.board.record import Exit, Ordered, State
from pool.clock import monotonic_now, wall_now
from pool.supervisor.children import LastExit
from pool.supervisor.control import LastReload
from pool.supervisor.headline import headline
from pool.supervisor.mortality import Mortality
from pool.supervisor.readiness import unready_reasons
from pool.supervisor.report import Moment, exit_document, status_document
from pool.supervisor.status_desk import idle_times
from tests.helpers.pools import StillPool, death, keeper, queue, workers


def status_of(pool: StillPool) -> dict[str, Any]:
    document = status_document(pool, Moment(monotonic_now(), wall_now()))
    return json.loads(json.dumps(document))  # it must be JSON


def reasons_of(pool: StillPool) -> list[str]:
    return unready_reasons(status_of(pool), idle_times(pool, monotonic_now()))


# ---------------------------------------------------------------- status


def test_a_busy_worker_shows_its_job_and_since_when() -> None:
    pool = StillPool(workers(2), keeper())
    busy, _, _ = pool.all_born()
    pool.holds(busy, for_s=3.0)
    worker = status_of(pool)["workers"][0]
    assert (worker["state"], worker["slot"], worker["generation"], worker["pid"]) == ("busy", 1, 1, 101)
    (job,) = worker["jobs"]
    assert (job["type"], job["queue"], job["started"]) == ("mail.send", "mail", True)
    assert 3.0 <= job["seconds"] < 30
    assert (worker["completed"], worker["failed"], worker["rss_bytes"]) == (7, 2, 50_000_000)
    assert worker["memory_limit"] == 512_000_000 and worker["last_exit"] is None and worker["next_start_s"] is None


def test_each_section_of_the_design_is_there() -> None:
    pool = StillPool(workers(2), keeper())
    pool.all_born()
    pool.keeper_says(queue("mail", pending=3))
    pool.last_reload = LastReload(wall_now(), False, "unknown key")
    status = status_of(pool)
    assert {"pool", "workers", "keeper", "web", "queues", "backend", "totals", "groups"} <= status.keys()
    assert {"name", "pid", "version", "state", "since", "config", "last_reload"} <= status["pool"].keys()
    assert status["pool"]["last_reload"]["error"] == "unknown key" and status["pool"]["since"].endswith("Z")
    assert status["keeper"]["slot"] == 9001 and status["web"] is None
    assert status["queues"][0]["pending"] == 3 and status["totals"]["worker_deaths"] == 3
    assert status["backend"]["ok"] and status["backend"]["url"] == "redis://:***@h/0"
    assert len(status["workers"]) == 2


def test_each_count_names_its_source() -> None:
    pool = StillPool(workers(2), workers(1, "bulk"))
    pool.children.want(workers(2), 4, "scale")
    counts = {group["name"]: (group["count"], group["source"]) for group in status_of(pool)["groups"]}
    assert counts == {"workers": (4, "scale"), "bulk": (1, "file")}


def test_a_replacement_and_the_one_that_leaves_are_both_shown() -> None:
    pool = StillPool(workers(1))
    (old,) = pool.all_born()
    slot = pool.children.slot_of(old)
    pool.born(slot, 500, as_heir=True)
    pool.children.retiring(old, "replaced by a reload", monotonic_now())
    entries = {worker["pid"]: (worker["state"], worker["why"]) for worker in status_of(pool)["workers"]}
    assert entries == {500: ("idle", None), 101: ("retiring", "replaced by a reload")}


def test_a_worker_that_announced_its_leave_says_why() -> None:
    pool = StillPool(workers(1))
    (child,) = pool.all_born()
    pool.is_doing(child, State.RETIRING, exit=Exit.MAX_JOBS)
    worker = status_of(pool)["workers"][0]
    assert (worker["state"], worker["why"]) == ("retiring", "max jobs")


def test_a_parked_place_says_until_when_and_why() -> None:
    pool = StillPool(workers(1))
    slot = pool.children.workers()[0]
    slot.parked_until, slot.parked_why, slot.restarts = monotonic_now() + 60, "it failed 5 times", 5
    slot.last_exit = death(None, 1, remark="ImportError: no module named tasks")
    worker = status_of(pool)["workers"][0]
    assert (worker["state"], worker["pid"], worker["restarts"]) == ("parked", None, 5)
    assert 50 < worker["next_start_s"] <= 60
    assert worker["last_exit"]["code"] == 1 and "ImportError" in worker["last_exit"]["remark"]


@pytest.mark.parametrize(
    ("last", "how", "cause"),
    [
        (death(9), {"signal": 9}, "signal 9, not sent by jobpool"),
        (death(9, oom=True), {"signal": 9}, "signal 9, not sent by jobpool (the kernel ran out of memory)"),
        (death(9, ordered=Ordered.TIMEOUT), {"signal": 9}, "signal 9, sent by jobpool (timeout)"),
        (death(None, 3), {"code": 3}, "exit code 3"),
        (death(None, 0, announced=Exit.MEMORY, planned=True), {"code": 0}, "memory"),
    ],
)
def test_a_last_exit_claims_no_more_than_is_known(last: LastExit, how: dict[str, int], cause: str) -> None:
    document = exit_document(last)
    assert document is not None and document["cause"] == cause
    assert {key: document[key] for key in ("signal", "code") if key in document} == how


def test_a_pool_without_news_from_the_keeper_knows_no_backend() -> None:
    status = status_of(StillPool(workers(1)))
    assert status["backend"]["ok"] is False and status["backend"]["error"] == "not asked yet"
    assert status["queues"] == [] and status["totals"] == {}


def test_old_news_are_not_believed() -> None:
    pool = StillPool(workers(1))
    pool.keeper_says(age_s=60)
    backend = status_of(pool)["backend"]
    assert backend["ok"] is False and "no news from the keeper for 60 s" in backend["error"]


# ---------------------------------------------------------------- ready or not


def test_a_healthy_pool_is_ready_busy_or_idle() -> None:
    pool = StillPool(workers(2), keeper())
    busy, *_ = pool.all_born(idle_s=100)
    pool.keeper_says(queue())
    assert reasons_of(pool) == []
    pool.holds(busy)
    pool.keeper_says(queue(pending=1000, oldest_pending_s=9999, overdue=5))
    assert reasons_of(pool) == []


@pytest.mark.parametrize("state", ["starting", "draining", "stopping"])
def test_a_pool_that_takes_no_work_is_not_ready(state: str) -> None:
    pool = StillPool(workers(1))
    pool.all_born()
    pool.keeper_says()
    pool.word = state
    assert reasons_of(pool) == [f"the pool is {state}"]


def test_a_missing_worker_is_named_with_the_parked_place() -> None:
    pool = StillPool(workers(2))
    first, second = pool.children.workers()
    pool.born(first, 101)
    second.parked_until, second.parked_why = monotonic_now() + 30, "exit code 1"
    pool.keeper_says()
    (reason,) = reasons_of(pool)
    assert reason.startswith("group workers: 1 of 2 workers are ready: slot 2 is parked for ")
    assert reason.endswith("exit code 1")


def test_an_absent_backend_is_a_reason_and_old_queues_are_not() -> None:
    pool = StillPool(workers(1))
    pool.all_born(idle_s=100)
    pool.keeper_says(queue(overdue=3), ok=False, error="connection refused")
    assert reasons_of(pool) == ["the backend redis://:***@h/0 does not answer: connection refused"]


def test_overdue_jobs_beside_idle_workers_are_a_reason() -> None:
    pool = StillPool(workers(2))
    pool.all_born(idle_s=10)
    pool.keeper_says(queue(overdue=3))
    assert reasons_of(pool) == ["queue mail: 3 delayed jobs are overdue and workers are idle"]


def test_ready_jobs_that_no_idle_worker_claims_for_30_s_are_a_reason() -> None:
    pool = StillPool(workers(2))
    pool.all_born(idle_s=45)
    pool.keeper_says(queue(pending=4, oldest_pending_s=40.0))
    assert reasons_of(pool) == ["queue mail: 4 jobs are ready, workers are idle, nothing was claimed for 45 s"]


@pytest.mark.parametrize(
    "innocent",
    [
        queue(pending=4, oldest_pending_s=40.0, overdue=2, paused=True),
        queue("php", pending=4, oldest_pending_s=40.0, overdue=2, served=False),
        queue(pending=4, oldest_pending_s=10.0),
        queue(scheduled=4),
    ],
    ids=["paused", "unserved", "fresh", "later"],
)
def test_work_that_nobody_should_do_now_is_no_reason(innocent: dict[str, Any]) -> None:
    pool = StillPool(workers(2))
    pool.all_born(idle_s=45)
    pool.keeper_says(innocent)
    assert reasons_of(pool) == []


def test_idle_workers_of_other_queues_are_not_to_blame() -> None:
    pool = StillPool(workers(1, queues=("web",)), workers(1, "mailers", queues=("mail",)))
    _, mailer = pool.all_born(idle_s=45)
    pool.holds(mailer)
    pool.keeper_says(queue(pending=4, oldest_pending_s=40.0))
    assert reasons_of(pool) == []


# ---------------------------------------------------------------- one line, and deaths


def test_the_headline_counts_and_names_the_trouble() -> None:
    pool = StillPool(workers(3))
    busy, *_ = pool.all_born()
    pool.holds(busy)
    assert headline(pool) == "ready: 3 workers, 1 busy"
    pool.last_reload = LastReload(wall_now(), False, "[workers] cuont: unknown\nkey")
    assert headline(pool).endswith("; reload failed, the old configuration stays: [workers] cuont: unknown key")


def test_each_death_is_counted_once_by_its_cause_and_planned_exits_never() -> None:
    pool, mortality = StillPool(workers(2)), Mortality()
    first, second = pool.children.workers()
    first.last_exit = death(9)
    second.last_exit = death(None, 0, planned=True)
    mortality.look(pool.children)
    mortality.look(pool.children)
    first.last_exit = death(9, ordered=Ordered.TIMEOUT)
    second.last_exit = death(9, oom=True)
    mortality.look(pool.children)
    assert mortality.deaths == {("workers", "signal_9"): 1, ("workers", "timeout"): 1, ("workers", "out_of_memory"): 1}


def test_idle_workers_for_other_priorities_are_not_to_blame() -> None:
    """A group for urgent jobs alone sits idle while bulk jobs wait, as it should; with one for the rest it is a fault."""
    waiting = queue(pending=4, oldest_pending_s=40.0)
    urgent = workers(1, "urgent", min_priority=30)
    alone = StillPool(urgent)
    alone.all_born(idle_s=45)
    alone.keeper_says(waiting)
    assert reasons_of(alone) == []

    together = StillPool(urgent, workers(1, "rest", max_priority=29))
    together.all_born(idle_s=45)
    together.keeper_says(waiting)
    assert len(reasons_of(together)) == 1


def test_the_pools_memory_is_shown_against_what_there_is() -> None:
    pool = StillPool(workers(2), keeper())
    for child in pool.all_born():
        child.memory_bytes = 40_000_000
    memory = status_of(pool)["memory"]
    assert memory["used_bytes"] > 120_000_000
    assert memory["ceilings_bytes"] == 1_024_000_000
    assert memory["limit_bytes"] >= memory["left_bytes"] > 0
