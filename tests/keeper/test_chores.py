"""When a chore is due: one wake does what is due at about the same time, exact times stay exact."""

from pool.errors import BackendUnavailable
from pool.keeper.chores import Chore


def after(chore: Chore, now: float = 100.0) -> Chore:
    assert chore.attempt(now)
    return chore


def test_a_chore_may_be_done_a_little_early_together_with_others() -> None:
    chore = after(Chore("promote", 1.0, lambda now: None))
    assert not chore.is_due(100.7)
    assert chore.is_due(100.9)
    assert chore.due_at == 101.0, "what wakes the keeper is the full pause"


def test_a_long_pause_is_not_shortened_by_a_whole_wake() -> None:
    """The keeper wakes each second: with a fifth of five seconds it would be done one wake too early, a quarter more often."""
    chore = after(Chore("post", 5.0, lambda now: None))
    assert not chore.is_due(104.4)
    assert chore.is_due(104.6)


def test_an_exact_time_within_the_second_is_kept() -> None:
    chore = after(Chore("promote", 1.0, lambda now: 0.4))
    assert not chore.is_due(100.39)
    assert chore.is_due(100.4)


def test_a_chore_that_is_over_is_never_due() -> None:
    assert not after(Chore("once", 1.0, lambda now: float("inf"))).is_due(10**9)


def test_a_hurried_chore_is_due_at_once_or_at_a_sooner_time_and_never_later() -> None:
    chore = after(Chore("post", 5.0, lambda now: None))
    chore.hurry(102.0)
    assert not chore.is_due(101.9)
    assert chore.is_due(102.0)
    chore.hurry(104.0)
    assert chore.is_due(102.0)
    chore.hurry()
    assert chore.is_due(100.0)


def test_a_failed_chore_is_tried_again_after_a_second_and_no_sooner() -> None:
    def fail(now: float) -> None:
        raise BackendUnavailable("redis://x", "gone")

    chore = Chore("post", 5.0, fail)
    assert not chore.attempt(100.0)
    assert chore.is_store_away
    assert not chore.is_due(100.9)
    assert chore.is_due(101.0)
