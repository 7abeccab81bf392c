"""What the supervisor decides, without a process: differences between plans, silence, size."""

from pathlib import Path

import pytest

from pool.board.lanes import Lane, Phase
from pool.board.record import Exit, Process, Role, State
from pool.identity import PoolId
from pool.seat import ChildSpec, MemoryRule
from pool.supervisor.absence import Absence
from pool.supervisor.memory import Size, ceiling_below_fresh, judge
from pool.supervisor.planned import Plan
from pool.supervisor.reload import difference, what_forbids
from pool.supervisor.silence import Silence, silence_of

WORKERS, KEEPER = (Role.WORKER, "workers"), (Role.KEEPER, "keeper")


def spec(group: str = "workers", role: Role = Role.WORKER, count: int = 4, **more: object) -> ChildSpec:
    return ChildSpec(role=role, group=group, count=count, run=lambda seat: 0, **{"fingerprint": "a", **more})  # type: ignore[arg-type]


def plan(*specs: ChildSpec, **file_counts: int) -> Plan:
    nowhere = Path("/nonexistent")
    return Plan(
        pool=PoolId("p", "h", "i"), specs=specs, runtime_dir=nowhere, state_dir=nowhere, file_counts=file_counts
    )


def test_equal_plans_differ_in_nothing() -> None:
    changes = difference(plan(spec(), spec("keeper", Role.KEEPER, 1)), plan(spec(), spec("keeper", Role.KEEPER, 1)))

    assert changes.words == ()


def test_a_count_that_changed_in_the_file_beats_the_flag_and_an_unchanged_one_does_not() -> None:
    by_flag = spec(count=8)

    assert difference(plan(by_flag, workers=4), plan(by_flag, workers=4)).counts == {}
    assert difference(plan(by_flag, workers=4), plan(by_flag, workers=5)).counts == {WORKERS: 5}
    assert difference(plan(by_flag), plan(by_flag, workers=5)).counts == {WORKERS: 5}


def test_another_fingerprint_asks_for_replacement_and_a_code_deploy_for_that_of_all_workers() -> None:
    before = plan(spec(), spec("keeper", Role.KEEPER, 1))

    assert difference(before, plan(spec(fingerprint="b"), spec("keeper", Role.KEEPER, 1))).replaced == (WORKERS,)
    assert difference(before, before, rolling=True).replaced == (WORKERS,)
    assert difference(before, plan(spec(), spec("keeper", Role.KEEPER, 1, fingerprint="b"))).replaced == (KEEPER,)


def test_groups_that_come_and_go_are_named() -> None:
    changes = difference(plan(spec(), spec("old")), plan(spec(), spec("new")))

    assert [added.group for added in changes.added] == ["new"]
    assert changes.removed == ((Role.WORKER, "old"),)


def test_a_plan_that_needs_more_lanes_than_the_board_has_is_refused() -> None:
    assert what_forbids(plan(spec(lanes=4)), board_lanes=4) == ""
    assert "lanes reserved at the start" in what_forbids(plan(spec(lanes=5)), board_lanes=4)


# ---------------------------------------------------------------- silence


def silence(
    role: Role = Role.WORKER,
    state: State = State.IDLE,
    phase: Phase = Phase.NONE,
    *,
    quiet: float = 0.0,
    in_store: float = 0.0,
    since: float = 0.0,
) -> Silence:
    now = 1000.0
    store_since = now - in_store if in_store else 0.0
    process = Process(state, Exit.NONE, 0.0, now - quiet, store_since, 0, 0, 0, 0)
    lane = Lane(phase, 1, bytes(16), 0.0, 0.0, 1, b"", b"")
    return silence_of(role, process, [lane], timeout=30.0, now=now, since=since)


@pytest.mark.parametrize("state", [State.IDLE, State.BUSY])
def test_a_worker_that_waits_or_claims_must_show_life(state: State) -> None:
    assert silence(state=state, quiet=29.0) is Silence.NONE
    assert silence(state=state, quiet=31.0) is Silence.SILENT


def test_a_worker_in_user_code_may_be_silent_for_hours() -> None:
    assert silence(state=State.BUSY, phase=Phase.STARTED, quiet=90_000.0) is Silence.NONE


def test_a_result_in_hand_is_given_up_only_with_a_stopped_process() -> None:
    assert silence(state=State.BUSY, phase=Phase.STARTED, quiet=40.0, in_store=40.0) is Silence.SILENT_IF_STOPPED


def test_a_long_claim_that_shows_life_is_suspicious_only_if_stopped() -> None:
    assert silence(quiet=1.0, in_store=50.0) is Silence.NONE
    assert silence(quiet=1.0, in_store=61.0) is Silence.SILENT_IF_STOPPED


def test_a_keeper_must_show_life_whatever_it_does() -> None:
    assert silence(Role.KEEPER, State.BUSY, quiet=31.0) is Silence.SILENT


def test_a_web_process_whose_event_loop_hangs_is_replaced() -> None:
    assert silence(Role.WEB, quiet=29.0) is Silence.NONE
    assert silence(Role.WEB, quiet=31.0) is Silence.SILENT


def test_others_and_the_unborn_are_not_judged() -> None:
    assert silence(Role.WATCH, quiet=1e6) is Silence.NONE
    assert silence(state=State.BOOTING, quiet=1e6) is Silence.NONE


def test_no_silence_counts_from_before_we_were_back_ourselves() -> None:
    assert silence(quiet=100.0, since=995.0) is Silence.NONE
    assert silence(quiet=100.0, since=960.0) is Silence.SILENT


# ---------------------------------------------------------------- size


def test_above_kill_only_one_in_mid_job_is_killed() -> None:
    rule = MemoryRule(limit=100, kill=200)

    assert judge(99, rule, runs_user_code=True) is Size.FINE
    assert judge(101, rule, runs_user_code=True) is Size.ABOVE_LIMIT
    assert judge(201, rule, runs_user_code=True) is Size.ABOVE_KILL
    assert judge(201, rule, runs_user_code=False) is Size.ABOVE_LIMIT


def test_zero_means_off() -> None:
    assert judge(10**12, MemoryRule(), runs_user_code=True) is Size.FINE
    assert ceiling_below_fresh(10**12, MemoryRule()) == ""


def test_a_ceiling_below_a_fresh_worker_is_named_with_both_numbers() -> None:
    sentence = ceiling_below_fresh(50_000_000, MemoryRule(limit=40_000_000, kill=45_000_000))

    assert "memory_limit is 40,000,000" in sentence
    assert "50,000,000" in sentence
    assert ceiling_below_fresh(39_000_000, MemoryRule(limit=40_000_000)) == ""


# ---------------------------------------------------------------- absence


def test_a_late_end_of_a_sleep_is_an_absence_and_the_sleep_itself_is_none() -> None:
    absence = Absence(monotonic=100.0, boottime=150.0)

    assert absence.length(160.0, 210.0, slept_until=160.0) == 0.0
    assert absence.length(161.5, 211.5, slept_until=160.5) == 0.0  # a busy machine
    assert absence.length(175.5, 225.5, slept_until=165.5) == 10.0


def test_a_stop_in_the_middle_of_a_turn_is_an_absence() -> None:
    absence = Absence(monotonic=100.0, boottime=150.0)

    assert absence.length(104.0, 154.0) == 4.0
    assert absence.length(104.1, 154.1) == 0.0


def test_an_hour_in_which_the_machine_slept_is_an_absence_once() -> None:
    absence = Absence(monotonic=100.0, boottime=150.0)

    assert absence.length(101.0, 3751.0, slept_until=101.0) == 3600.0
    assert absence.length(102.0, 3752.0, slept_until=102.0) == 0.0
