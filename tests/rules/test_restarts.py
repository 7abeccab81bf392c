"""When a slot is filled again: a played history of exits, no process and no clock."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pool.board.record import Exit, Ordered, Role
from pool.seat import ChildSpec
from pool.supervisor.children import LastExit, Slot
from pool.supervisor.restarts import apply, delay_after, judge


def spec(**more: object) -> ChildSpec:
    return ChildSpec(role=Role.WORKER, group="workers", count=1, run=lambda seat: 0, fingerprint="", **more)  # type: ignore[arg-type]


def crash(**facts: object) -> LastExit:
    known = {"pid": 1, "signal": 9, "code": None, "at": 0.0, "lived_s": 0.5, "was_ready": True, **facts}
    return LastExit(**known)  # type: ignore[arg-type]


def no_jitter() -> float:
    return 0.0


def history(*exits: LastExit, of: ChildSpec | None = None) -> list[float]:
    """The delays after each exit."""
    slot = Slot(1, of or spec())
    delays = []
    for exit in exits:
        verdict = judge(slot.spec, slot.failures, slot.boot_failures, exit, no_jitter)
        apply(verdict, slot, 0.0)
        delays.append(verdict.delay_s)
    return delays


def test_each_crash_doubles_the_delay_up_to_the_longest() -> None:
    assert history(*[crash()] * 8) == [1, 2, 4, 8, 16, 32, 60, 60]


def test_a_healthy_run_forgives() -> None:
    assert history(crash(), crash(), crash(lived_s=10.0), crash()) == [1, 2, 1, 2]


def test_a_long_boot_is_no_healthy_run() -> None:
    assert history(crash(), crash(lived_s=30.0, was_ready=False)) == [1, 2]


def test_a_planned_exit_is_free_and_forgives() -> None:
    assert history(crash(), crash(), crash(planned=True), crash()) == [1, 2, 0, 1]


@pytest.mark.parametrize("ordered", [Ordered.TIMEOUT, Ordered.MEMORY, Ordered.CANCEL])
def test_a_kill_for_what_a_job_did_is_free(ordered: Ordered) -> None:
    assert history(crash(ordered=ordered)) == [0]


@pytest.mark.parametrize("ordered", [Ordered.SILENT, Ordered.BOOT])
def test_a_kill_for_what_the_worker_did_is_not(ordered: Ordered) -> None:
    assert history(crash(ordered=ordered)) == [1]


@pytest.mark.parametrize("announced", [Exit.BARRED, Exit.ORPHANED])
def test_a_worker_that_was_sent_away_comes_back_unhurried(announced: Exit) -> None:
    assert history(crash(planned=True, announced=announced)) == [1]


def test_two_thousand_crashes_overflow_nothing() -> None:
    assert history(*[crash()] * 2000)[-1] == 60
    assert delay_after(spec(max_delay=1e300), 2000, no_jitter) <= 1e300


def test_a_place_that_never_becomes_ready_is_parked_with_its_own_words() -> None:
    slot = Slot(1, spec())
    for _ in range(5):
        exit = crash(was_ready=False, signal=None, code=78, remark="Traceback\nModuleNotFoundError: tasks")
        apply(judge(slot.spec, slot.failures, slot.boot_failures, exit, no_jitter), slot, 100.0)

    assert slot.is_parked
    assert slot.parked_until == 160.0
    assert slot.parked_why == "failed to start 5 times in a row: ModuleNotFoundError: tasks"


def test_a_critical_child_is_never_parked_and_waits_at_most_its_own_limit() -> None:
    keeper = spec(critical=True, max_delay=6.0)
    slot = Slot(9001, keeper)

    for _ in range(50):
        verdict = judge(keeper, slot.failures, slot.boot_failures, crash(was_ready=False))
        apply(verdict, slot, 0.0)
        assert verdict.delay_s <= 6.0
        assert not slot.is_parked


@given(failures=st.integers(0, 10_000), roll=st.floats(0, 1, exclude_max=True))
def test_the_delay_is_never_longer_than_the_limit_and_never_much_shorter(failures: int, roll: float) -> None:
    delay = delay_after(spec(), failures, lambda: roll)

    assert 0.9 <= delay <= 60
    assert delay >= 0.9 * min(60, 2.0 ** max(0, min(failures, 60) - 1))


def test_a_broken_module_is_tried_at_most_six_times_in_thirty_seconds() -> None:
    clock, starts = 0.0, 1
    for failures in range(1, 100):
        clock += delay_after(spec(), failures, lambda: 0.999)
        if clock > 30:
            break
        starts += 1

    assert starts <= 6
