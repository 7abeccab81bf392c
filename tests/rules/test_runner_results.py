"""What a job returned, as JSON text; or a sentence that says why not."""

import dataclasses
import enum
import json
import uuid
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from pool.worker.results import MAX_DEPTH, ResultNotStorable, to_json


class Colour(enum.Enum):
    RED = "red"


@dataclasses.dataclass
class Point:
    x: int
    y: int


class Model(BaseModel):
    name: str


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


def test_nothing_is_nothing() -> None:
    assert to_json(None) is None


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "true"),
        ("Zoë 🙂", '"Zoë 🙂"'),
        (2**70, str(2**70)),
        ((1, 2), "[1,2]"),
        ({"a": {"b": None}}, '{"a":{"b":null}}'),
        ({1: "one"}, '{"1":"one"}'),
        (datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), '"2026-01-02T03:04:05Z"'),
        (uuid.UUID(int=1), '"00000000-0000-0000-0000-000000000001"'),
        (Decimal("1.50"), '"1.50"'),
        (Colour.RED, '"red"'),
        (Point(1, 2), '{"x":1,"y":2}'),
        ([Model(name="x")], '[{"name":"x"}]'),
        (nested(MAX_DEPTH), "[" * MAX_DEPTH + "1" + "]" * MAX_DEPTH),
        ("[" * 1000, '"' + "[" * 1000 + '"'),
    ],
)
def test_plain_and_richer_values_become_json(value: Any, text: str) -> None:
    assert to_json(value) == text


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({1}, "set"),
        (b"x", "bytes"),
        ({"a": [b"x"]}, "bytes"),
        (float("inf"), "infinity"),
        ({"a": float("nan")}, "NaN"),
        ("\udc80", "surrogate"),
        ({"\ud800": 1}, "surrogate"),
        ({(1, 2): 1}, "keys must be"),
        (nested(MAX_DEPTH + 1), "nested deeper"),
        (nested(100_000), "nested too deep"),
        ((n for n in range(3)), "generator"),
        (lambda: None, "function"),
        ("x" * 1_048_575, r"1,048,577 bytes, the limit is 1,048,576 \(jobs.max_result\)"),
        ("é" * 524_288, "1,048,578 bytes"),
    ],
)
def test_what_has_no_form_in_json_is_refused_with_the_reason(value: Any, words: str) -> None:
    with pytest.raises(ResultNotStorable, match=words):
        to_json(value)


def test_a_result_of_just_the_limit_is_kept() -> None:
    assert len(to_json("x" * 1_048_574) or "") == 1_048_576


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=20,
    )
)
def test_every_json_value_survives(value: Any) -> None:
    text = to_json(value)
    assert value is None if text is None else json.loads(text) == value
