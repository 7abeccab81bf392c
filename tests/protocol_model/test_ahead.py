"""Claims made ahead keep their promises in every order of steps, and each rule about them is needed."""

import pytest

from tests.protocol_model.ahead import ROBBED, RULES, TWICE, explore

NEEDED = [
    ("lock at the start", {TWICE, ROBBED}),
    ("lock at the close", {TWICE, ROBBED}),
    ("look again", {TWICE, ROBBED}),
    ("look at the age", {TWICE, ROBBED}),
    ("read the clock last", {TWICE, ROBBED}),
    ("mark", {TWICE, ROBBED}),
    ("named claims", {ROBBED}),
]


def test_no_promise_is_broken() -> None:
    states, broken = explore()
    assert broken == {}
    assert states > 2000


@pytest.mark.parametrize(("rule", "promises"), NEEDED)
def test_without_a_rule_a_promise_is_broken(rule: str, promises: set[str]) -> None:
    _, broken = explore(rule)
    for promise, way in broken.items():
        print(f"{promise}:\n  " + "\n  ".join(way))
    assert promises & set(broken)


def test_every_rule_is_shown_to_be_needed() -> None:
    assert {rule for rule, _ in NEEDED} == set(RULES)
