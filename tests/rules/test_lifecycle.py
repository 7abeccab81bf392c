"""The table of states and moves is the machine: every pair leads somewhere or is refused."""

from itertools import product

import pytest

from pool.errors import IllegalMove
from pool.jobs.lifecycle import LIVE, MOVES, Status, after

PAIRS = list(product(MOVES, Status))


@pytest.mark.parametrize(("move", "status"), PAIRS)
def test_a_move_leads_to_its_target_or_is_refused(move: str, status: Status) -> None:
    sources, target = MOVES[move]
    if status in sources:
        assert after(move, status) is target
    else:
        with pytest.raises(IllegalMove):
            after(move, status)


def test_a_refusal_names_the_move_the_state_and_the_job() -> None:
    with pytest.raises(IllegalMove, match="cannot complete job 42: it is pending") as refused:
        after("complete", Status.PENDING, "42")
    assert (refused.value.move, refused.value.status, refused.value.job_id) == ("complete", "pending", "42")


def test_only_a_running_job_completes_or_fails() -> None:
    for move in ("complete", "fail", "retry", "release", "abandon"):
        assert MOVES[move][0] == {Status.RUNNING}


def test_nothing_leaves_completed() -> None:
    assert all(Status.COMPLETED not in sources for sources, _ in MOVES.values())


def test_every_state_but_the_first_two_can_be_reached_and_every_live_one_can_be_left() -> None:
    targets = {target for _, target in MOVES.values()}
    assert targets == set(Status)
    for status in LIVE:
        assert any(status in sources for sources, _ in MOVES.values())


def test_only_a_claim_makes_a_job_run() -> None:
    assert [move for move, (_, target) in MOVES.items() if target is Status.RUNNING] == ["claim"]


def test_a_job_comes_back_to_life_by_a_persons_order_only() -> None:
    back = [move for move, (sources, target) in MOVES.items() if target.is_live and any(not s.is_live for s in sources)]
    assert back == ["revive"]


def test_live_means_it_may_still_run() -> None:
    assert {status for status in Status if status.is_live} == {Status.SCHEDULED, Status.PENDING, Status.RUNNING}
