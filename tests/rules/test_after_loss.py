"""What the loss of its holder costs a job: the first rule that fits, and no other count moves."""

from itertools import product

import pytest

from pool.jobs.lifecycle import Reason
from pool.jobs.retry import MAX_POOL_LOSSES, Counts, Loss, after_loss

FRESH = Counts(retry_count=0, max_retries=3, kill_count=0, max_kills=3)
ONCE = Counts(retry_count=0, max_retries=0, kill_count=0, max_kills=3)
ENDINGS = (Reason.WORKER_LOST, Reason.TIMEOUT, Reason.MEMORY_LIMIT, Reason.INTERRUPTED)
CHARGED = (Reason.WORKER_LOST, Reason.TIMEOUT, Reason.MEMORY_LIMIT)


@pytest.mark.parametrize(("started", "board_lost", "shared"), list(product((True, False), repeat=3)))
@pytest.mark.parametrize("reason", ENDINGS)
def test_a_job_to_be_cancelled_is_cancelled_whatever_else_is_true(reason, started, board_lost, shared) -> None:
    flags = {"started": started, "board_lost": board_lost, "shared": shared}
    for counts in (FRESH, ONCE):
        asked = after_loss(counts, reason, cancel_requested=True, **flags)
        killed_for_it = after_loss(counts, Reason.CANCELLED, **flags)
        assert asked == killed_for_it == Loss("abandon", Reason.CANCELLED, counts)


@pytest.mark.parametrize("reason", ENDINGS)
@pytest.mark.parametrize("counts", [FRESH, ONCE, Counts(3, 3, 2, 3, 9)])
def test_what_never_started_costs_nothing(counts: Counts, reason: Reason) -> None:
    for board_lost, shared in product((True, False), repeat=2):
        loss = after_loss(counts, reason, started=False, board_lost=board_lost, shared=shared)
        assert loss == Loss("release", reason, counts)


@pytest.mark.parametrize("reason", ENDINGS)
def test_an_at_most_once_job_that_started_is_failed_with_the_reason(reason: Reason) -> None:
    for board_lost, shared in product((True, False), repeat=2):
        loss = after_loss(ONCE, reason, started=True, board_lost=board_lost, shared=shared)
        assert loss == Loss("fail", reason, ONCE)


def test_our_own_shutdown_is_free_even_for_a_job_with_nothing_left() -> None:
    spent = Counts(3, 3, 2, 3, 9)
    for board_lost, shared in product((True, False), repeat=2):
        loss = after_loss(spent, Reason.INTERRUPTED, started=True, board_lost=board_lost, shared=shared)
        assert loss == Loss("release", Reason.INTERRUPTED, spent)


def test_the_loss_of_a_whole_pool_uses_no_retry_and_fails_at_the_tenth() -> None:
    counts, moves = Counts(1, 1, 2, 3), []
    for _ in range(MAX_POOL_LOSSES):
        loss = after_loss(counts, Reason.WORKER_LOST, started=True, board_lost=True)
        counts = loss.counts
        moves.append(loss.move)
    assert moves == ["release"] * 9 + ["fail"]
    assert counts == Counts(1, 1, 2, 3, 10)


def test_a_shared_death_blames_nobody_and_separates_them() -> None:
    loss = after_loss(FRESH, Reason.WORKER_LOST, started=True, shared=True)
    assert loss == Loss("release", Reason.WORKER_LOST, FRESH, runs_alone=True)


@pytest.mark.parametrize("reason", [Reason.TIMEOUT, Reason.MEMORY_LIMIT])
def test_an_ordered_kill_has_one_culprit_though_others_died_with_it(reason: Reason) -> None:
    loss = after_loss(FRESH, reason, started=True, shared=True)
    assert loss == Loss("release", reason, Counts(1, 3, 0, 3))


@pytest.mark.parametrize("reason", CHARGED)
def test_a_loss_uses_one_retry_and_the_last_one_fails(reason: Reason) -> None:
    counts, moves = Counts(0, 2, 0, 100), []
    for _ in range(3):
        loss = after_loss(counts, reason, started=True)
        counts = loss.counts
        moves.append((loss.move, loss.reason))
    assert moves == [("release", reason), ("release", reason), ("fail", reason)]
    assert counts.retry_count == 2


def test_unordered_deaths_count_as_kills_and_end_at_max_kills() -> None:
    counts, moves = Counts(0, 100, 0, 3), []
    for _ in range(3):
        loss = after_loss(counts, Reason.WORKER_LOST, started=True)
        counts = loss.counts
        moves.append(loss.move)
    assert moves == ["release", "release", "fail"]
    assert (counts.retry_count, counts.kill_count) == (2, 3)


@pytest.mark.parametrize("reason", [Reason.TIMEOUT, Reason.MEMORY_LIMIT])
def test_ordered_kills_never_count_as_kills(reason: Reason) -> None:
    loss = after_loss(Counts(0, 100, 2, 3), reason, started=True)
    assert loss == Loss("release", reason, Counts(1, 100, 2, 3))


def test_the_fault_of_a_first_kill_with_max_kills_one_is_final() -> None:
    loss = after_loss(Counts(0, 100, 0, 1), Reason.WORKER_LOST, started=True)
    assert loss == Loss("fail", Reason.WORKER_LOST, Counts(0, 100, 1, 1))


@pytest.mark.parametrize(
    ("reason", "started", "board_lost", "shared", "cancel"),
    list(product((*ENDINGS, Reason.CANCELLED), *[(True, False)] * 4)),
)
def test_no_loss_ever_gives_a_budget_back_or_takes_more_than_one(reason, started, board_lost, shared, cancel) -> None:
    for counts in (FRESH, ONCE, Counts(3, 3, 2, 3, 9), Counts(0, 100, 0, 1)):
        loss = after_loss(
            counts, reason, started=started, board_lost=board_lost, shared=shared, cancel_requested=cancel
        )
        assert loss.move in {"release", "fail", "abandon"}
        for name in ("retry_count", "kill_count", "loss_count"):
            assert 0 <= getattr(loss.counts, name) - getattr(counts, name) <= 1
        assert (loss.counts.max_retries, loss.counts.max_kills) == (counts.max_retries, counts.max_kills)
        assert loss.counts.retry_count <= counts.max_retries
