"""The protocol keeps its promises in every state that can be reached, and each of its rules is needed."""

import pytest

from tests.protocol_model.explorer import explore
from tests.protocol_model.model import RULES, Budget

MISFORTUNES = [
    Budget(losses=1, doubles=1),
    Budget(kills=1, doubles=1),
    Budget(leaves=1, losses=1),
    Budget(pauses=1, beats=1),
    pytest.param(Budget(pauses=1, doubles=1), marks=pytest.mark.full),
    pytest.param(Budget(kills=1, losses=1, doubles=1), marks=pytest.mark.full),
    pytest.param(Budget(leaves=1, doubles=1, beats=1), marks=pytest.mark.full),
    pytest.param(Budget(pauses=1, kills=1, beats=1), marks=pytest.mark.full),
]

A_STRAY_CLAIM = "a job is held by a worker that does not know of it"
HELD_BY_THE_DEAD = "a job is held by a worker that is gone"
UNJUST = "a claim that never started is charged"
DROPPED_FOR_NOTHING = "a job is dropped though its claim holds"
TAKEN_AWAY = "a job starts under a claim that was taken away"
LATE = "a late settlement settles a newer claim"

NEEDED = [
    (("requests",), Budget(doubles=1), A_STRAY_CLAIM),
    (("departures",), Budget(leaves=1), HELD_BY_THE_DEAD),
    (("bar",), Budget(kills=1), HELD_BY_THE_DEAD),
    (("started",), Budget(kills=1), UNJUST),
    (("job of the started",), Budget(kills=1), UNJUST),
    (("job of the order",), Budget(beats=1), DROPPED_FOR_NOTHING),
    (("late start",), Budget(pauses=1), TAKEN_AWAY),
    (("sure loss",), Budget(), TAKEN_AWAY),
    # The fence is a second lock behind the numbered requests: it is missed where those are gone too.
    (("fence", "requests"), Budget(doubles=1), LATE),
]


def in_words(value: object) -> str:
    if isinstance(value, Budget):
        return ", ".join(f"{count} {name}" for name, count in value._asdict().items() if count) or "nothing"
    return " and ".join(value) if isinstance(value, tuple) else str(value)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("budget", MISFORTUNES, ids=in_words)
def test_no_promise_is_broken_whatever_happens_within(budget: Budget) -> None:
    found = explore(budget, most_states=6_000_000)
    assert found.broken == {}
    assert found.states > 1_000


@pytest.mark.parametrize(("dropped", "budget", "promise"), NEEDED, ids=in_words)
def test_without_a_rule_a_promise_is_broken(dropped: tuple[str, ...], budget: Budget, promise: str) -> None:
    found = explore(budget, *dropped)
    for broken, way in found.broken.items():
        print(f"{broken}:\n  " + "\n  ".join(way))
    assert promise in found.broken


def test_every_rule_is_shown_to_be_needed() -> None:
    assert {rule for dropped, _, _ in NEEDED for rule in dropped} == set(RULES)


def test_the_fence_holds_where_the_requests_do_not() -> None:
    assert LATE not in explore(Budget(doubles=1), "requests").broken
