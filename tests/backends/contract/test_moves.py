"""Every pair of move and state of the lifecycle table: a legal one moves, an illegal one is refused and changes nothing."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from pool.backends.contract import Backend
from pool.errors import IllegalMove
from pool.jobs.job import Outcome, Settlement
from pool.jobs.lifecycle import MOVES, Reason, Status, after
from tests.helpers.builders import LATER_SECONDS, Hand, failure
from tests.helpers.states import WAYS, Made, make, unchanged
from tests.helpers.until import until

# A record that cannot be read cannot be made through the contract: each backend's own tests try "set aside".
TRIED_ELSEWHERE = {"set aside"}


@dataclass(frozen=True)
class Try:
    """How a test makes a move. `refused` is true when the store said no (in the manner of that call)."""

    act: Callable[[Backend, Made], bool]  # whether it was accepted
    fields: Callable[[str], dict[str, Any]] = lambda _: {}


def _settle(outcome: Outcome, **fields: Any) -> Callable[[Backend, Made], bool]:
    def act(store: Backend, made: Made) -> bool:
        word = Settlement(job_id=made.job_id, claim=max(made.last_claim, 1), outcome=outcome, **fields)
        return made.hand.exchange(settlement=word).settled is True

    return act


def _order(name: str) -> Callable[[Backend, Made], bool]:
    def act(store: Backend, made: Made) -> bool:
        try:
            getattr(store, name)(made.job_id)
        except IllegalMove:
            return False
        return True

    return act


def _claim(store: Backend, made: Made) -> bool:
    return Hand(store).claim() is not None


def _promote(store: Backend, made: Made) -> bool:
    due = store.job(made.job_id).run_at
    if due < store.server_now() + LATER_SECONDS / 2:
        until(lambda: store.server_now() > due, "the job's due time")
    return store.promote().moved > 0


def _expire(store: Backend, made: Made) -> bool:
    expires_at = store.job(made.job_id).expires_at
    assert expires_at is not None
    until(lambda: store.server_now() > expires_at, "the job's end")
    was = store.job(made.job_id).status
    store.promote()
    assert Hand(store).claim() is None or was is Status.RUNNING
    return store.job(made.job_id).status is not was


def _soon(way: str) -> dict[str, Any]:
    return {"delay": 0.2} if way == "delayed" else {}


TRIES: dict[str, Try] = {
    "promote": Try(_promote, _soon),
    "claim": Try(_claim),
    "complete": Try(_settle(Outcome.COMPLETED)),
    "retry": Try(_settle(Outcome.RETRIED, delay=LATER_SECONDS, cause=failure())),
    "release": Try(_settle(Outcome.RETURNED)),
    "fail": Try(_settle(Outcome.FAILED, reason=Reason.FATAL_ERROR, cause=failure())),
    "abandon": Try(_settle(Outcome.CANCELLED, cause=failure(reason=Reason.CANCELLED))),
    "cancel": Try(_order("cancel")),
    "expire": Try(_expire),
    "revive": Try(_order("revive")),
    "discard": Try(_order("discard")),
}

PAIRS = [(move, way) for move in TRIES for way in WAYS]
LEGAL = [(move, way) for move, way in PAIRS if WAYS[way][0] in MOVES[move][0]]
ILLEGAL = [pair for pair in PAIRS if pair not in LEGAL]

# Legal by the table, but these need more than the bare state: a due time that has come, no flag in the way.
SPECIAL = {
    ("promote", "retried"),  # due in a day: nothing to promote (its own test below)
    ("retry", "flagged"),  # ends cancelled (test_cancel)
    ("release", "flagged"),
    ("cancel", "held"),  # flagged, not refused (test_cancel)
    ("cancel", "flagged"),
    ("expire", "held"),  # a running job is not stopped by its expiry
    ("expire", "flagged"),
}


def test_every_move_of_the_table_is_tried_here_or_named_as_tried_elsewhere() -> None:
    assert set(TRIES) | TRIED_ELSEWHERE == set(MOVES)


def _make_for(store: Backend, move: str, way: str) -> Made:
    if move != "expire":
        return make(store, way, **TRIES[move].fields(way))
    for seconds in (0.4, 2.0, 10.0, 30.0):  # the way must be walked before the job ends
        try:
            return make(store, way, expires_in=seconds)
        except AssertionError:
            continue
    raise AssertionError(f"no time to walk the way {way!r}")


@pytest.mark.parametrize(("move", "way"), [pair for pair in LEGAL if pair not in SPECIAL])
def test_a_legal_move_leads_where_the_table_says(store: Backend, move: str, way: str) -> None:
    made = _make_for(store, move, way)
    assert TRIES[move].act(store, made)
    assert store.job(made.job_id).status is after(move, WAYS[way][0])


@pytest.mark.parametrize(("move", "way"), [pair for pair in ILLEGAL if pair not in SPECIAL])
def test_an_illegal_move_is_refused_and_changes_nothing(store: Backend, move: str, way: str) -> None:
    made = _make_for(store, move, way)
    with unchanged(store):
        accepted = TRIES[move].act(store, made)
    # the same word said twice by the last holder is harmless, and may be called accepted again
    assert not accepted or (move, way) in {("complete", "completed"), ("fail", "failed"), ("abandon", "abandoned")}


@pytest.mark.parametrize("way", ["held", "flagged"])
def test_a_running_job_outlives_its_expiry(store: Backend, way: str) -> None:
    made = _make_for(store, "expire", way)
    with unchanged(store):
        _expire(store, made)
    assert made.hand.complete()


def test_a_retry_in_its_backoff_is_promoted_when_due(store: Backend, hand: Hand) -> None:
    made = make(store, "held", hand)
    hand.retry(delay=0.2)
    assert store.job(made.job_id).status is Status.SCHEDULED
    assert _promote(store, made)
    assert store.job(made.job_id).status is Status.PENDING
    assert store.job(made.job_id).retry_count == 1


def test_promotion_leaves_a_job_that_is_not_due_alone(store: Backend) -> None:
    make(store, "retried")
    make(store, "delayed")
    with unchanged(store):
        assert store.promote().moved == 0


def test_an_order_for_an_unknown_job_says_so(store: Backend) -> None:
    from pool.errors import JobNotFound
    from pool.jobs.ids import new_job_id

    for order in (store.cancel, store.revive, store.discard, store.job):
        with pytest.raises(JobNotFound):
            order(new_job_id())
        with pytest.raises(JobNotFound):
            order("no such id'; DROP TABLE jobs; --")
