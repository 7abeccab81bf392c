"""One step at a time towards the wanted wait: numbers in, a number and its reason out."""

from pool.board.record import Role
from pool.seat import ChildSpec, MemoryRule
from pool.supervisor.autoscale import DOWN_COOLDOWN_S, UP_COOLDOWN_S, Load, next_step
from pool.supervisor.scaling import oldest_wait

LONG_AGO = 1000.0


def spec(**more: object) -> ChildSpec:
    limits = {"count_min": 2, "count_max": 6, "target_wait": 10.0, "memory": MemoryRule(limit=100), **more}
    return ChildSpec(role=Role.WORKER, group="workers", count=2, run=lambda seat: 0, fingerprint="", **limits)  # type: ignore[arg-type]


def load(**facts: object) -> Load:
    return Load(**{"count": 3, "idle": 0, "oldest_wait_s": None, "since_last_step_s": LONG_AGO, **facts})  # type: ignore[arg-type]


def count(**facts: object) -> int | None:
    step = next_step(spec(), load(**facts))
    return None if step is None else step.count


def test_nothing_happens_unless_it_is_asked_for() -> None:
    assert next_step(spec(target_wait=None), load(oldest_wait_s=1e6)) is None
    assert next_step(spec(count_max=None), load(oldest_wait_s=1e6)) is None


def test_a_job_that_waits_too_long_adds_one_worker() -> None:
    assert count(oldest_wait_s=10.5) == 4
    assert count(oldest_wait_s=9.5) is None


def test_one_step_per_cooldown() -> None:
    assert count(oldest_wait_s=99.0, since_last_step_s=UP_COOLDOWN_S - 0.1) is None
    assert count(idle=3, since_last_step_s=DOWN_COOLDOWN_S - 0.1) is None


def test_never_beyond_the_bounds_and_the_reason_says_so() -> None:
    step = next_step(spec(), load(count=6, oldest_wait_s=99.0))

    assert step is not None
    assert step.count == 6
    assert "count_max is reached" in step.reason
    assert count(count=2, idle=2) is None


def test_never_against_the_memory_budget() -> None:
    step = next_step(spec(), load(oldest_wait_s=99.0, memory_left_bytes=99))

    assert step is not None
    assert step.count == 3
    assert "no memory" in step.reason


def test_idle_workers_leave_only_when_nothing_waits() -> None:
    assert count(idle=1) == 2
    assert count(idle=1, oldest_wait_s=6.0) is None
    assert count(idle=0) is None


def test_a_count_outside_the_bounds_is_brought_inside_at_once() -> None:
    assert count(count=1) == 2
    assert count(count=9, since_last_step_s=0.0) == 6


def test_the_wait_is_that_of_the_groups_own_queues_and_not_of_paused_ones() -> None:
    news = {
        "queues": [
            {"name": "mail", "oldest_pending_s": 5.0},
            {"name": "bulk", "oldest_pending_s": 50.0},
            {"name": "night", "oldest_pending_s": 500.0, "paused": True},
            {"name": "php", "oldest_pending_s": 5000.0, "served": False},
            {"name": "empty", "oldest_pending_s": None},
        ]
    }

    assert oldest_wait(news, spec(queues=("mail", "night"))) == 5.0
    assert oldest_wait(news, spec()) == 50.0
    assert oldest_wait({}, spec()) is None
