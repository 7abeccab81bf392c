"""A short fuzz of everything that takes input, always the same; with `--full` a long one with a seed that is new each time."""

import secrets

import pytest

from tests.fuzz.__main__ import KINDS
from tests.fuzz.runner import for_seconds, fuzz

TRIES = {"status": 60, "http": 250, "configuration": 120, "commands": 60, "records-sqlite": 50, "records-redis": 50}


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", sorted(KINDS))
def test_no_input_brings_anything_down(name: str) -> None:
    assert fuzz(name, KINDS[name], "fixed", iter(range(TRIES[name]))) == TRIES[name]


@pytest.mark.full
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("name", sorted(KINDS))
def test_no_input_brings_anything_down_for_minutes(name: str) -> None:
    assert fuzz(name, KINDS[name], secrets.token_hex(4), for_seconds(300))
